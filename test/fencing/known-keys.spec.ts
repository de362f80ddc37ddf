import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { postgresFence, type Fence } from '../../lib/fencing/index.ts';
import { fenceError, KnownKeys } from '../../lib/fencing/sql/advance-fence.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

const FLOOR = /FOR SHARE/;

/** On PostgreSQL `claim` looks at the floor only for keys that the process does not know. */
describe.each([{}, { prepared: true }])('the known keys of a fence with %j', (options) => {
  const database = usePostgres(async (created) => {
    await created.query(postgresFence(created).ddl());
  });
  let pool: pg.Pool;
  let fence: Fence<pg.PoolClient>;
  let count = 0;
  let key: string;
  /** Of the statements of the fence that the server has read since it was emptied. */
  const texts: string[] = [];

  beforeEach(async () => {
    key = `seat:${(count += 1)}`;
    pool = new pg.Pool({ connectionString: database.url, max: 2 });
    pool.on('connect', (client) => {
      const { connection } = client as unknown as {
        connection: { bind: Function; parse: Function };
      };
      const parse = connection.parse.bind(connection);
      connection.parse = (statement: { text: string }, ...rest: unknown[]) => {
        texts.push(statement.text);
        return parse(statement, ...rest);
      };
    });
    fence = postgresFence(pool, options);
    await pool.query(`UPDATE redlock_fence SET token = 1 WHERE resource = ''`);
    texts.length = 0;
  });

  afterEach(() => pool.end());

  const token = (value: number, keys: readonly string[] = [key]): FencingToken =>
    new FencingToken(value, [...keys], `holder-${value}`);
  const stale = (currentToken: number, of = key) =>
    expect.objectContaining({ code: 'STALE_TOKEN', key: of, currentToken: String(currentToken) });
  const prune = (floor: number) =>
    pool.query(
      `UPDATE redlock_fence SET token = ${floor} WHERE resource = ''; DELETE FROM redlock_fence WHERE resource <> ''`,
    );
  const use = (value: number, keys?: readonly string[]) => fence.claim(token(value, keys));

  it('looks at the floor for a new key, and not for one that it has brought before', async () => {
    await use(10);
    expect(texts.some((text) => FLOOR.test(text))).toBe(true);
    texts.length = 0;
    for (const value of [11, 12, 13]) await use(value);
    expect(texts.length).toBeGreaterThan(0);
    expect(texts.filter((text) => FLOOR.test(text))).toEqual([]);
  });

  it('refuses below the floor, and above it goes on, where the row of a known key was pruned', async () => {
    await use(10);
    await prune(20);
    await expect(use(15)).rejects.toEqual(stale(20));
    await expect(use(19)).rejects.toEqual(stale(20));
    const { rows } = await pool.query('SELECT resource FROM redlock_fence WHERE resource = $1', [
      key,
    ]);
    expect(rows).toEqual([]);
    await use(25);
    await expect(use(24)).rejects.toEqual(stale(25));
  });

  it('refuses below the floor where prune deletes the row for which a known key waits', async () => {
    await use(10);
    const pruner = await database.pool.connect();
    let write: Promise<unknown>;
    try {
      await pruner.query('BEGIN');
      await pruner.query('UPDATE redlock_fence SET token = 20 WHERE resource = $1', ['']);
      await pruner.query('DELETE FROM redlock_fence WHERE resource = $1', [key]);
      write = use(15).catch((error: unknown) => error);
      await untilBlocked(database.pool);
      await pruner.query('COMMIT');
    } finally {
      pruner.release();
    }
    expect(await write).toEqual(stale(20));
  });

  it('refuses a set in which one key is known and pruned, and another one is stale', async () => {
    const other = `${key}:other`;
    await use(10, [key, other]);
    await prune(5);
    await use(30, [other]);
    await expect(use(20, [key, other])).rejects.toEqual(stale(30, other));
    await use(31, [key, other]);
  });

  it('says so when the table keeps no row of a known key any more', async () => {
    await use(10);
    await pool.query(`
        CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER drop_row BEFORE INSERT OR UPDATE ON redlock_fence FOR EACH ROW EXECUTE FUNCTION drop_row()`);
    try {
      await expect(use(11)).rejects.toThrow(/without the row/);
    } finally {
      await pool.query('DROP TRIGGER drop_row ON redlock_fence; DROP FUNCTION drop_row');
    }
  });

  it('sends a stale claim once, whatever its key reads like', async () => {
    key = 'redlock:new:0';
    await fence.claim(token(20));
    await fence.claim(token(21));
    texts.length = 0;
    await expect(use(10)).rejects.toEqual(stale(21));
    expect(texts.filter((text) => FLOOR.test(text))).toEqual([]);
  });
});

/** Until a statement waits for a lock. */
async function untilBlocked(pool: {
  query(sql: string): Promise<{ rows: unknown[] }>;
}): Promise<void> {
  const sql = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`;
  while ((await pool.query(sql)).rows.length === 0);
}

describe('KnownKeys', () => {
  const claim = (key: string) => ({ key, token: '1', holder: 'a' });
  const refusal = Object.assign(new Error('"redlock:new:0"'), { code: '22P02' });
  const isNew = fenceError(refusal, 'postgresql', 'redlock_fence', [claim('a')]) as Error;
  let known: KnownKeys;
  beforeEach(() => void (known = new KnownKeys()));

  /** Whether each attempt relied on the rows. */
  async function attempts(
    keys: readonly string[],
    outcomes: readonly Error[] = [],
  ): Promise<boolean[]> {
    const seen: boolean[] = [];
    const attempt = async (isKnown: boolean) => {
      const outcome = outcomes[seen.push(isKnown) - 1];
      if (outcome) throw outcome;
    };
    await known.advance(keys.map(claim), attempt).catch(() => undefined);
    return seen;
  }

  it('relies on the rows of all keys, or of none', async () => {
    expect(await attempts(['a'])).toEqual([false]);
    expect(await attempts(['a', 'b'])).toEqual([false]);
    expect(await attempts(['a', 'b'])).toEqual([true]);
  });

  it('learns nothing from an attempt that failed', async () => {
    expect(await attempts(['a'], [new Error('no connection')])).toEqual([false]);
    expect(await attempts(['a'])).toEqual([false]);
  });

  it('tries again in full where a row is gone, and not for another error', async () => {
    await attempts(['a']);
    expect(await attempts(['a'], [isNew])).toEqual([true, false]);
    expect(await attempts(['a'], [new Error('no connection')])).toEqual([true]);
    expect(await attempts(['a'], [refusal])).toEqual([true]);
    expect(await attempts(['a'], [isNew, isNew])).toEqual([true, false]);
  });

  it('forgets the oldest of more than 10,000', async () => {
    for (let index = 0; index <= 10_000; index += 1) await attempts([String(index)]);
    expect(await attempts(['1'])).toEqual([true]);
    expect(await attempts(['10000'])).toEqual([true]);
    expect(await attempts(['0'])).toEqual([false]);
  });
});
