import { describe } from '@jest/globals';
import { useMariadb } from '../support/databases/use-databases.ts';
import { createMariadbAccounts, itConforms } from './support/account-stores.ts';
import {
  CONNECTIONS,
  openDrizzleMysql,
  openKnex,
  openKysely,
  openMysql2,
  openTypeorm,
} from './support/orm-accounts.ts';

describe('on MariaDB at its defaults (REPEATABLE READ)', () => {
  const database = useMariadb(createMariadbAccounts);

  itConforms('mysql2', () => openMysql2(database.url));
  itConforms('TypeORM', () =>
    openTypeorm({ type: 'mariadb', url: database.url, poolSize: CONNECTIONS }),
  );
  itConforms('Knex', () => openKnex({ client: 'mysql2', connection: database.url }));
  itConforms('Drizzle', () => openDrizzleMysql(database.url));
  itConforms('Kysely', () => openKysely(database.url, 'mysql'));
});
