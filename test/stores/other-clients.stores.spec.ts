import { afterAll, beforeAll, describe, jest } from '@jest/globals';
import { ConsumerProject, programsOf, removeProjects } from '../docs/consumer-project.ts';
import {
  createPostgresAccounts,
  firstText,
  SELECT,
  UPSERT,
} from '../fencing/support/account-stores.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { itFences, itNoticesTheEnd, type FencedClient } from './support/fenced-client.ts';

const PAGE = 'docs/fencing/orms.md';

describe(`the programs of ${PAGE}, on PostgreSQL`, () => {
  const database = usePostgres(createPostgresAccounts);
  let ofPostgresJs: Record<string, any>;
  let ofSequelize: Record<string, any>;

  beforeAll(async () => {
    // By default Sequelize prints every statement.
    jest.spyOn(console, 'log').mockReturnValue();
    process.env.DATABASE_URL = database.url;
    const packages = ['test/stores/node_modules'];
    const project = await ConsumerProject.create(programsOf(PAGE), 'module', packages);
    if (project.errors !== '') throw new Error(`${PAGE} does not compile:\n${project.errors}`);
    ofPostgresJs = await project.load('postgres-js-fence.ts');
    ofSequelize = await project.load('sequelize-fence.ts');
  });
  afterAll(async () => {
    await Promise.all([ofPostgresJs?.sql.end(), ofSequelize?.sequelize.close()]);
    removeProjects();
  });

  // The programs make one client each, for all tests.
  const close = (): void => undefined;
  const openPostgresJs = (): FencedClient => {
    const { fence, sql } = ofPostgresJs;
    return {
      fence,
      accounts: {
        read: async (resource) => firstText(await sql.unsafe(SELECT.postgresql, [resource])),
        write: (tx, resource, text) => tx.unsafe(UPSERT.postgresql, [resource, text]),
      },
      outside: [sql],
      run: (work) => sql.begin(work),
      execute: (tx, text) => tx.unsafe(text),
      close,
    };
  };
  const openSequelize = (): FencedClient => {
    const { fence, sequelize } = ofSequelize;
    return {
      fence,
      accounts: {
        read: async (resource) =>
          firstText((await sequelize.query(SELECT.postgresql, { bind: [resource] }))[0]),
        write: (transaction, resource, text) =>
          sequelize.query(UPSERT.postgresql, { bind: [resource, text], transaction }),
      },
      outside: [sequelize],
      run: (work) => sequelize.transaction(work),
      execute: (transaction, text) => sequelize.query(text, { transaction }),
      close,
    };
  };

  itFences('postgres.js', openPostgresJs, { isAged: false });
  itNoticesTheEnd('postgres.js', openPostgresJs);
  itFences('Sequelize', openSequelize, { isAged: false });
  itNoticesTheEnd('Sequelize', openSequelize);
});
