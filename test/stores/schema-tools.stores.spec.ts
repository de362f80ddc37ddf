import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { DataSource, EntitySchema } from 'typeorm';
import { postgresFence, type Fence } from '../../lib/fencing/index.ts';
import { blocksOf, readPage, type Block } from '../docs/pages.ts';
import { runCommand } from '../support/redis-servers/run-command.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { loadPackage } from './support/fenced-client.ts';
import { prismaSchemaEngine, type PrismaSchemaEngine } from './support/prisma-schema-engine.ts';

// Tools that compare the database with a model: what each does to a table of the fence, and what keeps it.

const ACCOUNT = '--schema=test/stores/schemas/account.ts';
const TOKEN = { value: 7, keys: ['seat'], holder: 'a' };
const [{ code: MODEL }] = blocksOf(readPage('docs/fencing/README.md')).filter(
  ({ language }) => language === 'prisma',
) as [Block];
const DROP = /drop table[^;]*"redlock_fence"/i;

describe('on PostgreSQL', () => {
  const database = usePostgres(async () => undefined);
  let fence: Fence;

  beforeEach(async () => {
    fence = postgresFence(database.pool);
    await database.pool.query(fence.ddl());
    await fence.claim(TOKEN);
  });
  afterEach(() => database.pool.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public'));

  /** The fence has its row, and the constraints of its DDL. */
  async function expectUntouched(): Promise<void> {
    expect(await fence.check()).toEqual([]);
    const older = { ...TOKEN, value: 6 };
    await expect(fence.claim(older)).rejects.toMatchObject({ currentToken: '7' });
    const zero = "INSERT INTO redlock_fence (resource, token) VALUES ('zero', 0)";
    await expect(database.pool.query(zero)).rejects.toThrow(/check constraint/);
  }

  async function expectMade(): Promise<void> {
    expect(await fence.check()).toEqual([]);
    await fence.claim(TOKEN);
  }

  async function withPrisma(
    models: string,
    externalTables: readonly string[],
    use: (engine: PrismaSchemaEngine) => Promise<void>,
  ): Promise<void> {
    const engine = await prismaSchemaEngine(database.url, models, externalTables);
    try {
      await use(engine);
    } finally {
      await engine.close();
    }
  }

  const drizzleKit = (...options: string[]): Promise<string> =>
    runCommand(process.execPath, [
      'test/stores/node_modules/drizzle-kit/bin.cjs',
      'push',
      '--dialect=postgresql',
      `--url=${database.url}`,
      '--verbose',
      '--force',
      ...options,
    ]);

  it('drizzle-kit push drops the table and the tokens in it', async () => {
    // With a new table beside it, drizzle-kit would ask whether that is the old one renamed.
    await database.pool.query('CREATE TABLE account (resource text PRIMARY KEY)');
    expect(await drizzleKit(ACCOUNT)).toMatch(DROP);
    expect(await fence.check()).toMatchObject([{ message: expect.stringMatching(/not exist/) }]);
  });

  it("drizzle-kit push leaves it alone with tablesFilter ['!redlock_fence']", async () => {
    const filter = '--tablesFilter=!redlock_fence';
    expect(await drizzleKit(ACCOUNT, filter)).not.toMatch(DROP);
    await expectUntouched();
  });

  it('drizzle-kit push keeps a table of the schema, and makes one that the fence accepts', async () => {
    expect(await drizzleKit('--schema=test/stores/schemas')).not.toMatch(DROP);
    await expect(fence.claim({ ...TOKEN, value: 6 })).rejects.toMatchObject({ currentToken: '7' });
    expect(await fence.check()).toEqual([]);
    await database.pool.query('DROP TABLE redlock_fence');
    await drizzleKit('--schema=test/stores/schemas');
    await expectMade();
  });

  it("Prisma's schema engine wants to drop it: in migrate diff, migrate dev and db push", () =>
    withPrisma('', [], async (engine) => {
      expect(await engine.diff()).toMatch(DROP);
      expect(await engine.migrate(fence.ddl())).toMatch(DROP);
      const warning = expect.stringMatching(/drop the `redlock_fence` table/);
      expect(await engine.push()).toEqual([warning]);
    }));

  it.each([
    ['tables.external', '', ['public.redlock_fence']],
    ['a model', MODEL, []],
  ])("Prisma's schema engine leaves it alone with %s", async (_name, model, externalTables) => {
    await withPrisma(model, externalTables, async (engine) => {
      expect(await engine.diff()).not.toMatch(/redlock_fence/);
      expect(await engine.migrate(fence.ddl())).not.toMatch(/redlock_fence/);
      expect(await engine.push()).toEqual([]);
    });
    await expectUntouched();
  });

  it("Prisma's schema engine makes a table of the model that the fence accepts", async () => {
    await database.pool.query('DROP TABLE redlock_fence');
    await withPrisma(MODEL, [], async (engine) => expect(await engine.push()).toEqual([]));
    await expectMade();
  });

  it('synchronize of TypeORM and sync of Sequelize leave it alone', async () => {
    const columns = { resource: { type: 'text', primary: true }, text: { type: 'text' } } as const;
    const source = await new DataSource({
      type: 'postgres',
      url: database.url,
      entities: [new EntitySchema({ name: 'account', columns })],
      synchronize: true,
    }).initialize();
    const { upQueries } = await source.driver.createSchemaBuilder().log();
    await source.destroy();
    expect(upQueries).toEqual([]);
    await expectUntouched();
    const { DataTypes, Sequelize } = loadPackage('sequelize');
    const sequelize = new Sequelize(database.url, {
      dialectModule: pg,
      logging: false,
    });
    sequelize.define('account', { resource: { type: DataTypes.TEXT, primaryKey: true } });
    for (const options of [{ alter: { drop: true } }, { force: true }])
      await sequelize.sync(options);
    await sequelize.close();
    await expectUntouched();
  });
});
