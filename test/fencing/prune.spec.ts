import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import Database from 'libsql';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  mysqlFence,
  postgresFence,
  sqliteFence,
  type Fence,
  type SqlFenceOptions,
} from '../../lib/fencing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { AGE, AGE_HOURS, HOUR, timeOf, tokenOf, tooOld, usage } from './support/ages.ts';
import { inMariadb, inPostgres } from './support/hand-written-transactions.ts';

// Duties of `maxAge` and `prune` on each database. That they let no stale token in, the conformance kit shows.

const LEVELS = ['read committed', 'repeatable read', 'serializable'] as const;

let count = 0;
let key: string;
beforeEach(() => void (key = `seat:${(count += 1)}`));

const postgres = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));
const mariadb = useMariadb((pool) => pool.query(mysqlFence(pool).ddl()));
const sqlite = new Database(':memory:');
sqlite.exec(`${sqliteFence(sqlite).ddl()} CREATE TABLE seat (id TEXT PRIMARY KEY, owner TEXT)`);
afterAll(() => void sqlite.close());

/** Sends SQL. */
type Run = (sql: string) => unknown;

interface Place {
  readonly fence: (options?: SqlFenceOptions) => Fence;
  readonly run: Run;
  /** Runs the work in a transaction that is not the fence's. */
  readonly hold: (work: (run: Run) => Promise<unknown>) => Promise<void>;
  /** Ways to bring a token, over connections whose transactions have the level. */
  readonly atLevel: (level: string) => {
    readonly uses: readonly ((token: FencingToken) => Promise<unknown>)[];
    readonly end: () => Promise<void>;
  };
}

const NO_ROW_LOCKS = () => {
  throw new Error('SQLite has no locks of rows');
};

const PLACES: Readonly<Record<string, Place>> = {
  PostgreSQL: {
    fence: (options) => postgresFence(postgres.pool, options),
    run: (sql) => postgres.pool.query(sql),
    hold: (work) => inPostgres(postgres.pool, (client) => work((sql) => client.query(sql))),
    atLevel: (level) => {
      const options = `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`;
      const pool = new pg.Pool({ connectionString: postgres.url, options });
      const fence = postgresFence(pool, AGE);
      return {
        uses: [
          (token) => fence.claim(token),
          (token) => fence.transaction(token, () => 'ran'),
          (token) => inPostgres(pool, (client) => fence.advance(client, token)),
        ],
        end: () => pool.end(),
      };
    },
  },
  MariaDB: {
    fence: (options) => mysqlFence(mariadb.pool, options),
    run: (sql) => mariadb.pool.query(sql),
    hold: (work) => inMariadb(mariadb.pool, (tx) => work((sql) => tx.query(sql))),
    atLevel: (level) => {
      const pool = createPool(mariadb.url);
      const set = `SET SESSION TRANSACTION ISOLATION LEVEL ${level}`;
      pool.on('connection', (connection) => void connection.query(set));
      const fence = mysqlFence(pool, AGE);
      return {
        uses: [(token) => fence.claim(token), (token) => fence.transaction(token, () => 'ran')],
        end: () => pool.end(),
      };
    },
  },
  SQLite: {
    fence: (options) => sqliteFence(sqlite, options),
    run: (sql) => sqlite.exec(sql),
    hold: NO_ROW_LOCKS,
    atLevel: NO_ROW_LOCKS,
  },
};

describe.each(Object.entries(PLACES))('on %s', (on, { fence: make, run, hold, atLevel }) => {
  let fence: Fence;
  /** Fence without a `maxAge`. */
  let plain: Fence;
  beforeEach(async () => {
    await run('DELETE FROM redlock_fence');
    [fence, plain] = [make(AGE), make()];
  });
  const old = (keys: readonly string[]) =>
    plain.claim({ value: timeOf(5 * AGE_HOURS), keys, holder: 'old' });
  const numbered = (length: number) =>
    Array.from({ length }, (_none, index) => `${key}:место ${index}`);

  it('deletes the rows of times that are an hour older, in pages, and no others', async () => {
    const keys = numbered(2_300);
    for (let at = 0; at < keys.length; at += 1_000) await old(keys.slice(at, at + 1_000));
    await plain.claim(tokenOf(`${key}:1.1`, AGE_HOURS + 1.1));
    const others = [0, AGE_HOURS - 1, AGE_HOURS + 0.1, AGE_HOURS + 0.9].map((hours) =>
      tokenOf(`${key}:${hours}`, hours),
    );
    for (const kept of others) await plain.claim(kept);
    await plain.claim({ value: 7, keys: ['counter'], holder: 'x' });
    const counts = await Promise.all([fence.prune(), fence.prune()]);
    expect(counts[0]! + counts[1]!).toBe(keys.length + 1);
    await expect(fence.prune()).resolves.toBe(0);
    await expect(fence.claim(tokenOf(`${key}:1.1`, AGE_HOURS + 2))).rejects.toEqual(tooOld());
    const stale = expect.objectContaining({ code: 'STALE_TOKEN' });
    for (const kept of others)
      await expect(
        plain.claim({ value: kept.value - 1, keys: kept.keys, holder: 'older' }),
      ).rejects.toEqual(stale);
    const counted = { value: 6, keys: ['counter'], holder: 'x' };
    await expect(plain.claim(counted)).rejects.toMatchObject({ currentToken: '7' });
  });

  it('deletes nothing of what is young by the clock of the process or by that of the database', async () => {
    await old([key]);
    await plain.claim(tokenOf(`${key}:today`, 0));
    for (const behindHours of [10 * AGE_HOURS, -10 * AGE_HOURS]) {
      const clock = jest.spyOn(Date, 'now').mockReturnValue(Date.now() - behindHours * HOUR);
      try {
        await expect(fence.prune()).resolves.toBe(behindHours > 0 ? 0 : 1);
      } finally {
        clock.mockRestore();
      }
    }
  });

  it('is not pruned without a maxAge, and with one takes no token of a counter, which has no age', async () => {
    await expect(plain.prune()).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'maxAge' });
    const counted = { value: 7, keys: [key], holder: 'a' };
    const refusal = usage(/7 is not a time.*maxAge.*Nothing was written/);
    await expect(fence.claim(counted)).rejects.toEqual(refusal);
    await expect(fence.transaction(counted, () => 'ran')).rejects.toEqual(refusal);
  });

  if (on === 'SQLite') return;

  it('leaves the row that a transaction holds, and waits for no one', async () => {
    const keys = numbered(10);
    await old(keys);
    await hold(async (send) => {
      await send(`SELECT 1 FROM redlock_fence WHERE resource = '${keys[7]}' FOR UPDATE`);
      await expect(fence.prune()).resolves.toBe(9);
      await expect(fence.claim(tokenOf(keys[0]!, 4 * AGE_HOURS))).rejects.toEqual(tooOld());
      await fence.claim(tokenOf(keys[1]!, 0));
    });
    const inside = fence.transaction(tokenOf(keys[7]!, 0), () => fence.prune());
    await expect(inside).resolves.toBe(0);
  });

  it('refuses what came in time, waited for the row, and would insert it when it is too old, in every form and at every level', async () => {
    const levels = LEVELS.map(atLevel);
    const uses = levels.flatMap((each) => each.uses);
    const keys = numbered(uses.length);
    // Connections are made here, not in the second that follows.
    await Promise.all(uses.map((use, index) => use(tokenOf(`${keys[index]}:first`, 0))));
    // The token becomes too old in a second. Where the machine is slower than that, the older ones are refused at once.
    const newer = new FencingToken(timeOf(AGE_HOURS) + 1_000_000, keys, 'newer');
    await plain.claim(newer);
    let late: Promise<unknown>[] = [];
    await hold(async (send) => {
      await send('DELETE FROM redlock_fence');
      late = uses.map((use, index) =>
        use(new FencingToken(newer.value - 1, [keys[index]!], 'older')).catch((error) => error),
      );
      while (timeOf(AGE_HOURS) <= newer.value) await delay(20);
    });
    await expect(Promise.all(late)).resolves.toEqual(uses.map(() => tooOld()));
    for (const { end } of levels) await end();
  });
});

it.each(['+13:00', '-11:00', 'SYSTEM'])(
  'ages are the same on MariaDB where the time zone of the session is %s',
  async (zone) => {
    const pool = createPool({ uri: mariadb.url, connectionLimit: 1 });
    pool.on('connection', (connection) => void connection.query(`SET time_zone = '${zone}'`));
    try {
      const fence = mysqlFence(pool, AGE);
      await fence.claim(tokenOf(key, AGE_HOURS - 0.1));
      await expect(fence.claim(tokenOf(`${key}:old`, AGE_HOURS + 0.1))).rejects.toEqual(tooOld());
    } finally {
      await pool.end();
    }
  },
);

it('deletes keys that the character set of the connection to MariaDB cannot show', async () => {
  const keys = Array.from({ length: 60 }, (_none, index) => `${key}:место ${index} 🔑`);
  await mysqlFence(mariadb.pool).claim({ value: timeOf(5 * AGE_HOURS), keys, holder: 'old' });
  const pool = createPool({ uri: mariadb.url, connectionLimit: 2 });
  pool.on('connection', (connection) => void connection.query('SET NAMES latin1'));
  try {
    await expect(mysqlFence(pool, AGE).prune()).resolves.toBe(60);
  } finally {
    await pool.end();
  }
});

it('does not commit what swallowed a refusal for its age on PostgreSQL', async () => {
  const fence = postgresFence(postgres.pool, AGE);
  const client = await postgres.pool.connect();
  try {
    await client.query('BEGIN');
    await expect(fence.advance(client, tokenOf(key, AGE_HOURS + 1))).rejects.toEqual(tooOld());
    await expect(client.query('COMMIT')).resolves.toMatchObject({ command: 'ROLLBACK' });
  } finally {
    client.release();
  }
});

it('refuses what is too old in a synchronous transaction of SQLite', () => {
  const fence = sqliteFence(sqlite, AGE);
  const write = sqlite.transaction((ageHours: number) =>
    fence.advanceSync(sqlite, tokenOf(key, ageHours)),
  );
  expect(() => write.immediate(AGE_HOURS + 1)).toThrow(tooOld());
  write.immediate(AGE_HOURS - 1);
});

it('lets others have their turn on SQLite, and undoes nothing of theirs', async () => {
  sqlite.exec(`DELETE FROM redlock_fence;
WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 20000)
INSERT INTO redlock_fence (resource, token) SELECT '${key}:' || n, ${timeOf(5 * AGE_HOURS)} FROM seq`);
  const fence = sqliteFence(sqlite, AGE);
  sqlite.prepare('INSERT INTO seat VALUES (?, 0)').run(key);
  const assign = sqlite.transaction(() => {
    fence.advanceSync(sqlite, tokenOf(key, 0, 'a'));
    sqlite.prepare('UPDATE seat SET owner = owner + 1 WHERE id = ?').run(key);
  });
  let isOver = false;
  const pruned = fence.prune().finally(() => (isOver = true));
  let turns = 0;
  for (; !isOver; turns += 1) {
    if (!sqlite.inTransaction) assign.immediate();
    await nextTurn();
  }
  await expect(pruned).resolves.toBe(20_000);
  expect(turns).toBeGreaterThan(15);
  const rows = sqlite.prepare('SELECT owner FROM seat WHERE id = ?').all(key);
  expect(rows).toEqual([{ owner: String(turns) }]);
});
