import { describe } from '@jest/globals';
import { useMariadb } from '../support/databases/use-databases.ts';
import { createMariadbAccounts, itConformsWithEach } from './support/account-stores.ts';
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

  itConformsWithEach({
    mysql2: () => openMysql2(database.url),
    'mysql2 at READ COMMITTED': () => openMysql2(database.url, 'read committed'),
    'mysql2 at SERIALIZABLE': () => openMysql2(database.url, 'serializable'),
    TypeORM: () => openTypeorm({ type: 'mariadb', url: database.url, poolSize: CONNECTIONS }),
    Knex: () => openKnex({ client: 'mysql2', connection: database.url }),
    Drizzle: () => openDrizzleMysql(database.url),
    Kysely: () => openKysely(database.url, 'mysql'),
  });
});
