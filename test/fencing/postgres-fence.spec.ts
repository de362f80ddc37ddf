import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import knexModule from 'knex';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  drizzleFence,
  knexFence,
  postgresFence,
  type Fence,
  type FenceEvent,
  type PostgresFenceOptions,
} from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { inPostgres, lockIsAwaited } from './support/hand-written-transactions.ts';

// Duties of PostgreSQL only: its isolation levels, time limits, sessions, prepared statements.

const SEAT = 'CREATE TABLE seat (id text PRIMARY KEY, owner text)';
const stale = (facts: object = {}) => expect.objectContaining({ code: 'STALE_TOKEN', ...facts });

describe('postgresFence', () => {
  const database = usePostgres(async (created) => {
    await created.query(`${postgresFence(created).ddl()} ${SEAT}`);
    await created.query(postgresFence(created).ddl());
  });
  let pool: pg.Pool;
  let fence: Fence<pg.PoolClient>;
  let events: FenceEvent[];
  let count = 0;
  let key: string;

  beforeEach(async () => {
    ({ pool } = database);
    events = [];
    fence = postgresFence(pool, { onEvent: (event) => void events.push(event) });
    key = `seat:${(count += 1)}`;
    await pool.query('INSERT INTO seat (id) VALUES ($1)', [key]);
  });

  // Transactions may not be left open by any test.
  afterEach(async () => {
    if (pool.idleCount !== pool.totalCount) throw new Error('a test left a connection checked out');
  });

  const token = (value: number, holder = `holder-${value}`, keys = [key]): FencingToken =>
    new FencingToken(value, keys, holder);
  const take = (client: pg.PoolClient | pg.Pool, owner: string): Promise<unknown> =>
    client.query('UPDATE seat SET owner = $2 WHERE id = $1', [key, owner]);
  const owner = async (): Promise<string | null> =>
    (await pool.query('SELECT owner FROM seat WHERE id = $1', [key])).rows[0].owner;
  const elsewhere = AsyncLocalStorage.snapshot();

  it.each([
    ['an older number', 1, 'old'],
    ['the same number of another holder', 2, 'twin'],
  ])(
    'makes a user’s own transaction fail after the user swallows the error of %s',
    async (_name, value, holder) => {
      await fence.claim(token(2));
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        await expect(fence.advance(client, token(value, holder))).rejects.toEqual(stale());
        await expect(take(client, 'stale')).rejects.toMatchObject({ code: '25P02' });
        expect((await client.query('COMMIT')).command).toBe('ROLLBACK');
      } finally {
        client.release();
      }
      await expect(owner()).resolves.toBeNull();
    },
  );

  it('is refused as stale, not as aborted, when a statement follows a refusal that was swallowed', async () => {
    const other = token(5, 'late', [`${key}:other`]);
    await fence.claim(token(9, 'newer', [`${key}:other`]));
    const going = fence.transaction(token(5), async (tx) => {
      await fence.advance(tx, other).catch(() => undefined);
      await tx.query('SELECT 1');
    });
    await expect(going).rejects.toEqual(stale({ key: other.keys[0] }));
  });

  it('reports the refusal of another holder inside once, for that one', async () => {
    const other = token(5, 'within', [`${key}:other`]);
    await fence.claim(token(9, 'newer', [`${key}:other`]));
    events.length = 0;
    const nested = fence.transaction(token(5), () => fence.transaction(other, () => 'ran'));
    await expect(nested).rejects.toEqual(stale({ key: other.keys[0] }));
    expect(events).toMatchObject([{ type: 'stale', keys: other.keys }]);
  });

  it.each(['repeatable read', 'serializable'] as const)(
    'retries with the same token when %s makes PostgreSQL abort the transaction, so often as it may',
    async (isolationLevel) => {
      const run = async (attempts: number): Promise<number> => {
        let runs = 0;
        const work = async (tx: pg.PoolClient) => {
          runs += 1;
          await tx.query('SELECT owner FROM seat WHERE id = $1', [key]);
          // A writer without a fence changes the row after this transaction's snapshot.
          if (runs < 3) await take(pool, 'foreign');
          await tx.query("UPDATE seat SET owner = coalesce(owner, '') || '+' WHERE id = $1", [key]);
          return runs;
        };
        return fence.transaction(token(1), work, { isolationLevel, attempts });
      };
      await expect(run(2)).rejects.toMatchObject({ code: '40001' });
      await expect(run(3)).resolves.toBe(3);
      await expect(owner()).resolves.toBe('foreign+');
      expect(events.map(({ type }) => type)).toEqual(['retried', 'retried', 'retried', 'admitted']);
    },
  );

  it.each(['Drizzle', 'Knex'])(
    'does not take a key in a message of %s for a refusal',
    async (name) => {
      const forged = `account:redlock:stale:["${key}","999","x"]`;
      const pair = token(5, 'h', [key, forged]);
      const knex = knexModule({ client: 'pg', connection: database.url });
      try {
        const other = name === 'Knex' ? knexFence(knex) : drizzleFence(drizzle(pool), { sql });
        await fence.transaction(token(4), async () => {
          const waiting = other.transaction(pair, () => undefined, { lockTimeout: 20 });
          await expect(waiting).rejects.not.toEqual(stale());
        });
        await fence.claim(token(7, 'newer', [forged]));
        const facts = { key: forged, currentToken: '7', currentHolder: 'newer' };
        await expect(other.claim(pair)).rejects.toEqual(stale(facts));
      } finally {
        await knex.destroy();
      }
    },
  );

  it('does not wait for a paused holder longer than lockTimeout', async () => {
    await fence.transaction(token(1), async () => {
      const newer = elsewhere(() =>
        fence.transaction(token(2), () => undefined, { lockTimeout: 50 }),
      );
      await expect(newer).rejects.toMatchObject({ code: '55P03' });
    });
  });

  it('lets a newer holder pass one that is frozen in its transaction, whose commit then fails', async () => {
    const [entered, thawed] = [new AbortController(), new AbortController()];
    const frozen = fence.transaction(
      token(1),
      async (tx) => {
        await take(tx, 'frozen');
        entered.abort();
        await once(thawed.signal, 'abort');
      },
      { idleInTransactionTimeout: 100 },
    );
    // PostgreSQL may end the session before its first statement, when this process stands still.
    await Promise.race([once(entered.signal, 'abort'), frozen.catch(() => undefined)]);
    await fence.transaction(token(2), (newer) => take(newer, 'newer'));
    thawed.abort();
    await expect(frozen).rejects.toThrow(/terminat|idle-in-transaction|not queryable/i);
    await expect(owner()).resolves.toBe('newer');
  });

  it('writes nothing when the session ends in the middle, does not retry, and names what ended it', async () => {
    let runs = 0;
    const cut = fence.transaction(token(1), async (tx) => {
      runs += 1;
      await take(tx, 'half');
      const { rows } = await tx.query('SELECT pg_backend_pid() AS pid');
      const ended = new Promise((resolve) => tx.once('end', resolve));
      await pool.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
      await ended;
      await take(tx, 'more');
    });
    await expect(cut).rejects.toMatchObject({ cause: { code: '57P01' } });
    expect(runs).toBe(1);
    await expect(owner()).resolves.toBeNull();
    await expect(fence.transaction(token(1), (tx) => take(tx, 'again'))).resolves.toBeDefined();
  });

  it('never deadlocks, in whatever order the keys are given', async () => {
    const names = Array.from({ length: 8 }, (_none, index) => `${key}:${index}`);
    const holders = Array.from({ length: 200 }, (_none, index) => {
      // Keys from each of them on, up or down, by steps of one or three.
      const step = [1, 3, 5, 7][Math.floor(index / 8) % 4]!;
      const keys = [0, 1, 2, 3].map((nth) => names[(index + nth * step) % 8]!);
      return fence.transaction(token(index + 1, `h${index}`, keys), (tx) => tx.query('SELECT 1'));
    });
    await Promise.allSettled(holders);
    expect(events.filter(({ type }) => type === 'retried')).toEqual([]);
    expect(events.filter(({ type }) => type === 'admitted' || type === 'stale').length).toBe(200);
  });

  describe('with one connection', () => {
    let alone: pg.Pool;
    let connected: number;
    beforeEach(() => {
      connected = 0;
      alone = new pg.Pool({ connectionString: database.url, max: 1 });
      alone.on('connect', () => void (connected += 1));
    });
    afterEach(() => alone.end());

    it('keeps the outcome of work that released the client of the fence', async () => {
      const run = (work: () => string) =>
        postgresFence(alone).transaction(token(1), (client) => {
          client.release();
          return work();
        });
      await expect(run(() => 'done')).resolves.toBe('done');
      const failing = run(() => {
        throw new Error('own');
      });
      await expect(failing).rejects.toThrow('own');
    });

    it('leaves nothing of a refusal or a failure on the client, whose next user hears its own', async () => {
      const refused: unknown[] = [];
      const own = postgresFence(alone, {
        onStale: (error, { operation }) => void refused.push([error.token, operation]),
      });
      await fence.claim(token(9));
      await expect(own.transaction(token(5), () => undefined)).rejects.toEqual(stale());
      const late = (value: number) =>
        inPostgres(alone, (client) => own.advance(client, token(value)));
      await expect(late(6)).rejects.toEqual(stale());
      await fence.transaction(token(9), async () => {
        const waiting = elsewhere(() =>
          own.transaction(token(10), () => undefined, { lockTimeout: 20 }),
        );
        await expect(waiting).rejects.toMatchObject({ code: '55P03' });
      });
      await expect(late(7)).rejects.toEqual(stale());
      await late(9);
      expect(refused).toEqual([
        ['5', 'transaction'],
        ['6', 'advance'],
        ['7', 'advance'],
      ]);
      expect(connected).toBe(1);
    });

    it('throws the connection of a claim away whose session was ended, and keeps that of a refused one', async () => {
      const own = postgresFence(alone);
      await own.claim(token(2));
      await expect(own.claim(token(1))).rejects.toEqual(stale());
      expect(connected).toBe(1);
      await inPostgres(pool, async (client) => {
        await fence.advance(client, token(2));
        const waiting = own.claim(token(3));
        waiting.catch(() => undefined);
        await lockIsAwaited(pool);
        await pool.query('SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted');
        await expect(waiting).rejects.toMatchObject({ code: '57P01' });
      });
      await own.claim(token(3));
      expect(connected).toBe(2);
    });

    it.each([
      ['half of its writes', `INSERT INTO seat (id) VALUES ('half')`],
      ['an error', 'SELECT 1 / 0'],
    ])(
      'commits for itself when its last user left a transaction open after %s',
      async (_of, text) => {
        const own = postgresFence(alone);
        const uses = [() => own.claim(token(4)), () => own.transaction(token(5), () => undefined)];
        for (const use of uses) {
          const client = await alone.connect();
          await client.query('BEGIN');
          await client.query(text).catch(() => undefined);
          client.release();
          await use();
        }
        await expect(fence.claim(token(4))).rejects.toEqual(stale({ currentToken: '5' }));
        const { rows } = await pool.query(`SELECT 1 FROM seat WHERE id = 'half'`);
        expect(rows).toEqual([]);
      },
    );

    it('reports no claim as a success when a BEGIN of the last user was on its way', async () => {
      const client = await alone.connect();
      const begun = client.query('BEGIN');
      client.release();
      const own = postgresFence(alone);
      await expect(own.claim(token(5))).rejects.toThrow(/Nothing was committed/);
      await begun;
      await fence.claim(token(4));
      await own.claim(token(5));
    });

    it.each([
      [{ prepared: true }, 1],
      [{}, 0],
    ])(
      'with %j prepares %i statement of its own, and none of the application',
      async (options, texts) => {
        const own = postgresFence(alone, options as PostgresFenceOptions);
        // PostgreSQL plans a prepared statement for its values five times before it may keep one plan for all.
        for (let value = 1; value <= 12; value += 1) {
          await own.claim(token(value));
          const work = (tx: pg.PoolClient) => tx.query('SELECT $1::text', ['theirs']);
          await own.transaction(token(value), work, { lockTimeout: value * 1_000 });
        }
        for (const late of [token(11), token(12, 'twin')]) {
          const facts = { token: String(late), currentToken: '12', currentHolder: 'holder-12' };
          await expect(own.claim(late)).rejects.toEqual(stale(facts));
          await expect(own.transaction(late, () => 0)).rejects.toEqual(stale(facts));
        }
        const { rows } = await alone.query('SELECT name FROM pg_prepared_statements');
        expect(rows).toHaveLength(texts);
      },
    );

    it('loses one call, not the connection for good, when what it prepared was reset behind its back', async () => {
      const own = postgresFence(alone, { prepared: true });
      for (const use of [() => own.claim(token(1)), () => own.transaction(token(1), () => 0)]) {
        await use();
        await alone.query('DISCARD ALL');
        await expect(use()).rejects.toMatchObject({ code: '26000' });
        await use();
      }
    });
  });
});

/** Leftovers that a migration from another database may bring: a cast that takes no offence, and a function of a known name. */
const OWN_NAMES = `
  CREATE FUNCTION lenient(text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT CASE WHEN $1 ~ '^[0-9]+$' THEN int8in(textout($1)) END $$;
  CREATE CAST (text AS bigint) WITH FUNCTION lenient(text);
  CREATE FUNCTION json_build_array(text, text, text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
  CREATE FUNCTION concat(text, json) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
  CREATE FUNCTION count(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
  CREATE FUNCTION txid_current(integer DEFAULT 0) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'`;

describe.each([{}, { prepared: true }])(
  'a fence with %j where names are the database’s own',
  (options) => {
    const database = usePostgres(async (created) => {
      await created.query(`${postgresFence(created).ddl()} ${SEAT}; ${OWN_NAMES}`);
      await created.query("INSERT INTO seat VALUES ('a')");
    });
    const token = (value: number, keys: readonly string[]) =>
      new FencingToken(value, [...keys], `holder-${value}`);
    const write = (client: { query(text: string): Promise<unknown> }) =>
      client.query("UPDATE seat SET owner = 'late' WHERE id = 'a'");

    it('refuses what is stale or too old, commits nothing that swallowed that, and notices an end', async () => {
      const { pool } = database;
      const fence = postgresFence(pool, options);
      await fence.claim(token(20, ['a']));
      for (const keys of [['a'], ['a', 'b', 'c'], ['b', 'a']]) {
        const facts = stale({ key: 'a', currentToken: '20' });
        await expect(fence.transaction(token(10, keys), write)).rejects.toEqual(facts);
        await expect(fence.claim(token(10, keys))).rejects.toEqual(facts);
      }
      await inPostgres(pool, async (client) => {
        await fence.advance(client, token(10, ['a'])).catch(() => undefined);
        await write(client).catch(() => undefined);
      });
      const aged = postgresFence(pool, { ...options, maxAge: '1d' });
      const old = token((Date.now() - 90_000_000) * 1_000, ['new']);
      await expect(aged.transaction(old, write)).rejects.toEqual(stale({ currentHolder: '' }));
      const ended = fence.transaction(token(30, ['c']), async (client) => {
        for (const text of ['COMMIT', 'BEGIN']) await client.query(text);
      });
      await expect(ended).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      expect((await pool.query('SELECT owner FROM seat')).rows).toEqual([{ owner: null }]);
    });

    it('writes nothing when the table keeps a row under another key', async () => {
      await database.pool.query(`
      CREATE TABLE renaming_fence (LIKE redlock_fence INCLUDING ALL);
      CREATE OR REPLACE FUNCTION rename_row() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.resource = NEW.resource || random(); RETURN NEW; END $$;
      CREATE TRIGGER renaming BEFORE INSERT ON renaming_fence FOR EACH ROW EXECUTE FUNCTION rename_row()`);
      const renaming = postgresFence(database.pool, { ...options, table: 'renaming_fence' });
      const written = renaming.transaction(token(30, ['a', 'b']), write);
      await expect(written).rejects.toThrow(/one row for each key/);
      const { rows } = await database.pool.query('SELECT owner FROM seat');
      expect(rows).toEqual([{ owner: null }]);
    });
  },
);
