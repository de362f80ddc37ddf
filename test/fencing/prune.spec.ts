import { readFileSync } from 'node:fs';
import type { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import type { PoolConnection } from 'mysql2/promise';
import type { PoolClient } from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  mysqlFence,
  pgliteFence,
  postgresFence,
  postgresTokenSource,
  sqliteFence,
  type Fence,
} from '../../lib/fencing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { inMariadb, inPostgres, lockIsAwaited } from './support/hand-written-transactions.ts';

const DAY = 86_400_000;
const LEVELS = ['read committed', 'repeatable read', 'serializable'] as const;

/** As the quorum numbers: in microseconds. */
const tokenOf = (key: string, ageDays: number, holder = `${ageDays} days old`): FencingToken =>
  new FencingToken((Date.now() - ageDays * DAY) * 1_000, [key], holder);

const stale = (floorDays: number) =>
  expect.objectContaining({
    code: 'STALE_TOKEN',
    currentHolder: '',
    currentToken: expect.stringMatching(
      new RegExp(`^${String((Date.now() - floorDays * DAY) * 1_000).slice(0, 7)}`),
    ),
  });

let count = 0;
let key: string;
beforeEach(() => void (key = `seat:${(count += 1)}`));

interface Target {
  /** A fence over a new table. */
  readonly open: (table: string) => Fence;
  readonly run: (sql: string) => unknown;
}

function itPrunes({ open, run }: Target): void {
  let fence: Fence;
  beforeEach(async () => {
    fence = open(`fence_${count}`);
    await run(fence.ddl());
  });

  it('refuses every token below the floor, and admits the others of keys that it deleted', async () => {
    const idle = Array.from({ length: 2_300 }, (_none, index) => `${key}:idle:ä${index}`);
    const old = tokenOf(key, 40).value;
    for (let at = 0; at < idle.length; at += 100) {
      const keys = idle.slice(at, at + 100);
      await fence.claim({ value: old, keys, holder: 'old' });
    }
    const used = tokenOf(`${key}:used`, 2);
    await fence.claim(used);
    const pruned = await fence.prune({ olderThan: '30d' });
    expect(pruned).toBeGreaterThanOrEqual(idle.length);
    await expect(fence.prune({ olderThan: '30d' })).resolves.toBe(0);
    const [first, last] = [idle[0]!, idle.at(-1)!];
    for (const again of [tokenOf(first, 40), tokenOf(last, 31), tokenOf(`${key}:other`, 31)]) {
      await expect(fence.claim(again)).rejects.toEqual(stale(30));
      const work = fence.transaction(again, () => 'ran');
      await expect(work).rejects.toEqual(stale(30));
    }
    for (const newer of [tokenOf(first, 29), tokenOf(first, 0), used]) {
      await fence.claim(newer);
      await expect(fence.transaction(newer, () => 'ran')).resolves.toBe('ran');
    }
    await expect(fence.claim(tokenOf(`${key}:used`, 3))).rejects.toMatchObject({
      currentHolder: '2 days old',
    });
  });

  it('refuses ages below a day, and what is none', async () => {
    for (const olderThan of ['23h', 1_000, '30', 'never', undefined, Number.NaN] as any[])
      await expect(fence.prune({ olderThan })).rejects.toMatchObject({ option: 'olderThan' });
  });

  it('refuses a table with the tokens of a counter', async () => {
    const idle = tokenOf(`${key}:idle`, 20);
    await fence.claim(idle);
    await fence.claim(new FencingToken(7, [key], 'counted'));
    await expect(fence.prune({ olderThan: '10d' })).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      message: expect.stringMatching(new RegExp(`'${key}' has the token of a counter`)),
    });
    // Nothing was deleted, and no floor was raised.
    await fence.claim(tokenOf(`${key}:more`, 20));
    await expect(fence.claim(tokenOf(`${key}:idle`, 21))).rejects.toMatchObject({
      currentHolder: '20 days old',
    });
    await fence.claim(new FencingToken(tokenOf(key, 0).value, [key], 'counted no more'));
  });
}

describe('on PostgreSQL', () => {
  const database = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));
  let fence: Fence<PoolClient>;
  beforeAll(() => void (fence = postgresFence(database.pool)));

  itPrunes({
    open: (table) => postgresFence(database.pool, { table }),
    run: (sql) => database.pool.query(sql),
  });

  const forms: Record<
    string,
    (token: FencingToken, level: (typeof LEVELS)[number]) => Promise<unknown>
  > = {
    claim: (token) => fence.claim(token),
    transaction: (token, isolationLevel) => fence.transaction(token, () => 0, { isolationLevel }),
    advance: (token, level) =>
      inPostgres(database.pool, async (client) => {
        await client.query(`SET TRANSACTION ISOLATION LEVEL ${level}`);
        await fence.advance(client, token);
      }),
  };

  it.each(Object.keys(forms).flatMap((form) => LEVELS.map((level) => [form, level] as const)))(
    'refuses a %s at %s that read the old floor, waited for the row, and inserted it after the delete',
    async (form, level) => {
      await fence.claim(tokenOf(key, 30));
      const { pool } = database;
      await pool.query(`ALTER ROLE CURRENT_USER SET default_transaction_isolation = '${level}'`);
      let late: Promise<unknown> | undefined;
      await inPostgres(pool, async (client) => {
        const floor = tokenOf(key, 25).value;
        await client.query("UPDATE redlock_fence SET token = $1 WHERE resource = ''", [floor]);
        await client.query('DELETE FROM redlock_fence WHERE resource = $1', [key]);
        late = forms[form]!(tokenOf(key, 31), level).catch((error: unknown) => error);
        await lockIsAwaited(pool);
      });
      await pool.query('ALTER ROLE CURRENT_USER RESET default_transaction_isolation');
      // What is aborted in a transaction of its own is not tried again here.
      const aborted = expect.objectContaining({ code: '40001' });
      const isStrict = form === 'advance' && level !== 'read committed';
      await expect(late).resolves.toEqual(isStrict ? aborted : stale(25));
      const { rows } = await pool.query('SELECT 1 FROM redlock_fence WHERE resource = $1', [key]);
      expect(rows).toEqual([]);
      await pool.query("UPDATE redlock_fence SET token = 1 WHERE resource = ''");
    },
  );

  it('says that a table without a floor needs one', async () => {
    await database.pool.query("DELETE FROM redlock_fence WHERE resource = ''");
    await fence.claim(tokenOf(key, 40));
    await expect(fence.prune({ olderThan: '30d' })).rejects.toThrow(/ddl\(\) again/);
    await expect(fence.claim(tokenOf(key, 41))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    await database.pool.query(fence.ddl());
    await expect(fence.prune({ olderThan: '30d' })).resolves.toBeGreaterThan(0);
    await database.pool.query("UPDATE redlock_fence SET token = 1 WHERE resource = ''");
  });

  it('admits new holders again after the repair of the documentation', async () => {
    const page = readFileSync('docs/fencing/README.md', 'utf8');
    const repair = /^UPDATE redlock_fence SET token = \d+, .*;/m.exec(page)![0];
    await fence.claim(new FencingToken(tokenOf(key, -400).value, [key], 'far ahead'));
    await expect(fence.claim(tokenOf(key, 0))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    const now = String(tokenOf(key, 0).value);
    await database.pool.query(repair.replace(/\d{16}/, now).replace('seat:12A', key));
    await fence.claim(tokenOf(key, -0.01));
    await expect(fence.claim(tokenOf(key, 1))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  it('admits new keys again after the repair of the floor of the documentation', async () => {
    const page = readFileSync('docs/fencing/README.md', 'utf8');
    const repair = /^UPDATE redlock_fence SET token = \d+ WHERE resource = '';/m.exec(page)![0];
    const { pool } = database;
    await pool.query(repair.replace(/\d{16}/, String(tokenOf(key, -400).value)));
    await expect(fence.claim(tokenOf(key, 0))).rejects.toMatchObject({ currentHolder: '' });
    await pool.query(repair.replace(/\d{16}/, String(tokenOf(key, 1).value)));
    await expect(fence.claim(tokenOf(key, 2))).rejects.toMatchObject({ currentHolder: '' });
    await fence.claim(tokenOf(key, 0));
    await pool.query("UPDATE redlock_fence SET token = 1 WHERE resource = ''");
  });

  it('counts no number of postgresTokenSource as a time', async () => {
    const source = postgresTokenSource(database.pool);
    const { signal } = new AbortController();
    await source.issue({ keys: [key], holder: 'counted', signal });
    await expect(fence.prune({ olderThan: '30d' })).rejects.toThrow(/counter/);
    await database.pool.query('DELETE FROM redlock_fence WHERE resource = $1', [key]);
  });
});

describe('on MariaDB', () => {
  const database = useMariadb((pool) => pool.query(mysqlFence(pool).ddl()));
  let fence: Fence<PoolConnection>;
  beforeAll(() => void (fence = mysqlFence(database.pool)));

  itPrunes({
    open: (table) => mysqlFence(database.pool, { table }),
    run: (sql) => database.pool.query(sql),
  });

  it.each(LEVELS)(
    'refuses a transaction at %s that waited for the row, and inserted it after the delete',
    async (isolationLevel) => {
      await fence.claim(tokenOf(key, 30));
      let late: Promise<unknown> | undefined;
      await inMariadb(database.pool, async (connection) => {
        await connection.query("UPDATE redlock_fence SET token = ? WHERE resource = ''", [
          tokenOf(key, 25).value,
        ]);
        await connection.query('DELETE FROM redlock_fence WHERE resource = ?', [key]);
        late = fence
          .transaction(tokenOf(key, 31), () => 'admitted', { isolationLevel })
          .catch((error: unknown) => error);
        await new Promise((resolve) => setTimeout(resolve, 200));
      });
      await expect(late).resolves.toEqual(stale(25));
      await database.pool.query("UPDATE redlock_fence SET token = 1 WHERE resource = ''");
    },
  );

  it('waits a second at most at a time for holders that are in their transactions', async () => {
    await fence.claim(tokenOf(`${key}:idle`, 40));
    let begin = (): void => undefined;
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const pruned = begun.then(() => fence.prune({ olderThan: '30d' }));
    await fence.transaction(tokenOf(key, 0), async () => {
      begin();
      await new Promise((resolve) => setTimeout(resolve, 1_800));
      // Others are not held up meanwhile.
      await fence.claim(tokenOf(`${key}:other`, 0));
    });
    await expect(pruned).resolves.toBeGreaterThan(0);
    const [rows] = await database.pool.query('SELECT @@innodb_lock_wait_timeout AS wait');
    expect(rows).not.toEqual([{ wait: 1 }]);
    await database.pool.query("UPDATE redlock_fence SET token = 1 WHERE resource = ''");
  });
});

describe('on SQLite', () => {
  const database = new Database(':memory:');
  const fence = sqliteFence(database);
  database.exec(fence.ddl());
  itPrunes({ open: (table) => sqliteFence(database, { table }), run: (sql) => database.exec(sql) });

  it('refuses in a synchronous transaction what is below the floor', async () => {
    await fence.prune({ olderThan: '30d' });
    const write = database.transaction((ageDays: number) =>
      fence.advanceSync(database, tokenOf(key, ageDays)),
    );
    expect(() => write.immediate(31)).toThrow(stale(30));
    write.immediate(29);
  });
});

describe('in PGlite', () => {
  let lite: PGlite;
  beforeAll(async () => void (lite = await startPglite()));
  afterAll(() => lite.close());
  itPrunes({ open: (table) => pgliteFence(lite, { table }), run: (sql) => lite.exec(sql) });
});
