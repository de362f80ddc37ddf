import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { ConsumerProject, programsOf, removeProjects } from '../../test/docs/consumer-project.ts';
import { createPostgresAccounts, plainPostgres } from '../../test/fencing/support/accounts.ts';
import type { OpenClient } from '../../test/fencing/support/clients.ts';
import { usePostgres } from '../../test/support/databases/use-databases.ts';
import { itFences } from './support/fenced-client.ts';

const PAGE = 'docs/internals/own-fence.md';

describe(`the programs of ${PAGE}, on PostgreSQL`, () => {
  const database = usePostgres(createPostgresAccounts);
  let ofPostgresJs: Record<string, any>;
  let ofSequelize: Record<string, any>;

  beforeAll(async () => {
    // Sequelize prints every statement by default.
    jest.spyOn(console, 'log').mockReturnValue();
    process.env.DATABASE_URL = database.url;
    const packages = ['campaign/stores/node_modules'];
    const project = await ConsumerProject.write(programsOf(PAGE), 'module', packages);
    const errors = await project.compile();
    if (errors !== '') throw new Error(`${PAGE} does not compile:\n${errors}`);
    ofPostgresJs = await project.load('postgres-js-fence.ts');
    ofSequelize = await project.load('sequelize-fence.ts');
  });
  afterAll(async () => {
    await Promise.all([ofPostgresJs?.sql.end({ timeout: 1 }), ofSequelize?.sequelize.close()]);
    removeProjects();
  });

  // The programs make one client each, for all tests.
  const close = (): void => undefined;
  const clients: Readonly<Record<string, OpenClient>> = {
    'postgres.js': () => {
      const { fence, sql } = ofPostgresJs as any;
      return {
        fence,
        outside: [sql],
        run: (work) => sql.begin(work),
        execute: (tx, text) => tx.unsafe(text),
        close,
      };
    },
    Sequelize: () => {
      const { fence, sequelize } = ofSequelize as any;
      return {
        fence,
        outside: [sequelize],
        run: (work) => sequelize.transaction(work),
        execute: (transaction, text) => sequelize.query(text, { transaction }),
        close,
      };
    },
  };
  const facts = { url: () => database.url, isAged: false };
  for (const [name, open] of Object.entries(clients))
    itFences(name, open, 'postgresql', () => plainPostgres(database.pool), facts);

  it('postgres.js rejects a transaction whose connection is lost when its work has ended, and throws nothing beside it', async () => {
    const { fence } = ofPostgresJs as any;
    const steps: string[] = [];
    const beside = (error: Error) => void steps.push(`beside: ${error.message}`);
    process.on('uncaughtException', beside);
    const lost = fence.transaction({ value: 1, keys: ['lost'], holder: 'h' }, async (tx: any) => {
      const [{ pid }] = await tx`SELECT pg_backend_pid() AS pid`;
      const failed = tx`SELECT pg_sleep(60)`.catch(() => undefined);
      await database.pool.query('SELECT pg_terminate_backend($1)', [pid]);
      await failed;
      await nextTurn();
      steps.push('work goes on');
      await tx`SELECT 1`;
      steps.push('sent');
    });
    await lost.catch(() => void steps.push('rejected'));
    await nextTurn();
    process.off('uncaughtException', beside);
    expect(steps).toEqual(['work goes on', 'rejected']);
  });
});
