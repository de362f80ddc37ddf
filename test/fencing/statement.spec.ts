import { beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { postgresFence, type FenceEvent, type PostgresFence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { inPostgres, lockIsAwaited } from './support/hand-written-transactions.ts';

const WRITE = 'UPDATE seat SET owner = $2 WHERE id = $1 RETURNING owner';

describe.each([{}, { prepared: true }])('fence.statement with %j', (options) => {
  const database = usePostgres(async (created) => {
    await created.query(postgresFence(created).ddl());
    await created.query(`CREATE TABLE seat (id text PRIMARY KEY, owner text, n integer);
      CREATE TABLE entry (id serial, seat text, balance integer)`);
  });
  let pool: pg.Pool;
  let fence: PostgresFence<pg.PoolClient>;
  let events: FenceEvent[];
  let refunds: unknown[];
  let count = 0;
  let key: string;

  beforeEach(async () => {
    ({ pool } = database);
    events = [];
    refunds = [];
    fence = postgresFence(pool, {
      ...options,
      onEvent: (event) => void events.push(event),
      onStale: (error) => void refunds.push(error.key),
    });
    key = `seat:${(count += 1)}`;
    await pool.query('INSERT INTO seat (id) VALUES ($1)', [key]);
  });

  const token = (value: number, keys = [key]): FencingToken =>
    new FencingToken(value, keys, `holder-${value}`);
  const owner = async (): Promise<string | null> =>
    (await pool.query('SELECT owner FROM seat WHERE id = $1', [key])).rows[0].owner;

  it('checks the token and writes in one round trip', async () => {
    const write = (value: number): Promise<unknown> =>
      fence.statement(token(value), WRITE, [key, `owner ${value}`]);
    await expect(write(2)).resolves.toEqual([{ owner: 'owner 2' }]);
    await expect(write(1)).rejects.toMatchObject({ code: 'STALE_TOKEN', currentToken: '2' });
    await expect(owner()).resolves.toBe('owner 2');
    await expect(write(3)).resolves.toEqual([{ owner: 'owner 3' }]);
    expect(events.map(({ type }) => type)).toEqual(['admitted', 'stale', 'admitted']);
  });

  it.each([WRITE, `/**/ ${WRITE}`])('sends the parameters that it was given: %s', async (sql) => {
    const parameters = [key, 'given'];
    const writing = fence.statement(token(1), sql, parameters);
    parameters.splice(1, 1, 'changed');
    await expect(writing).resolves.toEqual([{ owner: 'given' }]);
  });

  it('takes INSERT, DELETE, CTEs and SELECT as they are, without and with parameters', async () => {
    const insert = `INSERT INTO seat (id, owner) VALUES ('${key}:new', 'new')`;
    await expect(fence.statement(token(2), insert)).resolves.toEqual([]);
    const remove =
      'WITH gone AS (DELETE FROM seat WHERE id = $1 RETURNING owner) SELECT owner FROM gone';
    await expect(fence.statement(token(1), remove, [`${key}:new`])).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
    await expect(fence.statement(token(2), remove, [`${key}:new`])).resolves.toEqual([
      { owner: 'new' },
    ]);
    await expect(
      fence.statement(token(2), 'SELECT $1::int AS a, now() IS NOT NULL AS b', [7]),
    ).resolves.toEqual([{ a: 7, b: true }]);
  });

  it.each([
    ['a row that is not there', `UPDATE seat SET owner = 'x' WHERE id = $1 || 'no'`],
    ['a comment about the fence', `UPDATE seat SET owner = 'x' WHERE id = $1 -- from fence`],
    ['a text about the fence', `UPDATE seat SET owner = 'from fence' WHERE id = $1`],
    ['LIMIT 0', `UPDATE seat SET owner = 'x' WHERE id = (SELECT $1::text LIMIT 0)`],
  ])('refuses a stale token whatever the statement is about: %s', async (_name, sql) => {
    await fence.claim(token(9));
    await expect(fence.statement(token(5), sql, [key])).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      key,
      currentToken: '9',
    });
    await expect(owner()).resolves.toBeNull();
    expect(refunds).toEqual([key]);
  });

  it.each([
    `UPDATE seat SET owner = 'x' WHERE id = $1`,
    `INSERT INTO seat (id, owner) VALUES ($1 || ':x', 'x')`,
    `UPDATE seat SET owner = 'x' WHERE id IN (SELECT $1 LIMIT 1)`,
  ])('checks every key of the token for %s', async (sql) => {
    const keys = [`${key}:a`, `${key}:b`, `${key}:c`];
    for (const newer of keys) {
      await fence.claim(new FencingToken(9, [newer], 'newer'));
      await expect(fence.statement(token(5, keys), sql, [key])).rejects.toMatchObject({
        code: 'STALE_TOKEN',
      });
    }
    const { rows } = await pool.query('SELECT owner FROM seat WHERE id LIKE $1', [`${key}%`]);
    expect(rows).toEqual([{ owner: null }]);
    await expect(fence.statement(token(10, keys), sql, [key])).resolves.toEqual([]);
  });

  describe('while an older holder is inside its transaction', () => {
    /** Lets the statement wait for the older holder, which writes and commits meanwhile. */
    async function behindOlder(older: string, sql: string): Promise<readonly unknown[]> {
      let waiting: Promise<readonly unknown[]> | undefined;
      const parameters = [key];
      await inPostgres(pool, async (client) => {
        await fence.advance(client, token(1));
        waiting = fence.statement(token(2), sql, parameters);
        await lockIsAwaited(pool);
        // A second attempt sends what the first one sent.
        parameters.splice(0, 1, 'changed');
        await client.query(older, [key]);
      });
      return waiting!;
    }
    it('reads what that one wrote to other tables', async () => {
      const sql = `INSERT INTO entry (seat, balance)
        VALUES ($1, coalesce((SELECT balance FROM entry WHERE seat = $1 ORDER BY id DESC LIMIT 1), 0) + 10)
        RETURNING balance`;
      await expect(behindOlder(sql, sql)).resolves.toEqual([{ balance: 20 }]);
    });

    it('adds up what that one inserted', async () => {
      const sql = `UPDATE seat SET n = (SELECT sum(balance) FROM entry WHERE seat = $1) WHERE id = $1 RETURNING n`;
      const older = 'INSERT INTO entry (seat, balance) VALUES ($1, 5)';
      await expect(behindOlder(older, sql)).resolves.toEqual([{ n: 5 }]);
    });

    it('finds the row that that one inserted', async () => {
      const sql = `UPDATE seat SET owner = 'newer' WHERE id = $1 || ':new' RETURNING owner`;
      const older = `INSERT INTO seat (id, owner) VALUES ($1 || ':new', 'older')`;
      await expect(behindOlder(older, sql)).resolves.toEqual([{ owner: 'newer' }]);
    });

    it('is tried again when the isolation level of the database asks for it', async () => {
      await pool.query(`ALTER ROLE CURRENT_USER SET default_transaction_isolation = serializable`);
      const strict = new pg.Pool({ connectionString: database.url });
      try {
        const before = fence;
        fence = postgresFence(strict, { ...options, onEvent: (event) => void events.push(event) });
        const sql = 'UPDATE seat SET n = coalesce(n, 0) + 1 WHERE id = $1 RETURNING n';
        await expect(behindOlder(sql, sql)).resolves.toEqual([{ n: 2 }]);
        expect(events.map(({ type }) => type)).toContain('retried');
        fence = before;
      } finally {
        await strict.end();
        await pool.query('ALTER ROLE CURRENT_USER RESET default_transaction_isolation');
      }
    });
  });

  it('does not take a value of the user for a refusal', async () => {
    const value = `redlock:stale:["${key}","9999","x"]`;
    const write = fence.statement(token(5), 'UPDATE seat SET n = $2::int WHERE id = $1', [
      key,
      value,
    ]);
    await expect(write).rejects.toMatchObject({ code: '22P02' });
    expect(refunds).toEqual([]);
  });

  it('writes nothing when the statement fails, and leaves the connection usable', async () => {
    const one = new pg.Pool({ connectionString: database.url, max: 1 });
    const sent: unknown[] = [];
    one.on('connect', (client) => {
      sent.push('connect');
      const query = client.query.bind(client) as (...all: unknown[]) => any;
      client.query = (...all: unknown[]) => (sent.push(all[0]), query(...all));
    });
    try {
      const alone = postgresFence(one, options);
      for (const value of [5, 7]) {
        const newer = token(value + 1);
        await expect(
          alone.statement(token(value), 'UPDATE seat SET n = 1 / $2 WHERE id = $1', [key, 0]),
        ).rejects.toMatchObject({ code: '22012' });
        await expect(
          alone.statement(token(value), 'UPDATE nowhere SET n = $1', [1]),
        ).rejects.toMatchObject({ code: '42P01' });
        await fence.claim(newer);
        await expect(alone.statement(token(value), WRITE, [key, 'stale'])).rejects.toMatchObject({
          code: 'STALE_TOKEN',
        });
        await alone.statement(newer, WRITE, [key, `owner ${value}`]);
        await expect(owner()).resolves.toBe(`owner ${value}`);
      }
      expect(sent.filter((each) => /^connect$|^BEGIN/.test(String(each)))).toEqual(['connect']);
    } finally {
      await one.end();
    }
  });

  describe('with a procedure or a block that commits half-way', () => {
    const BATCH = (seat: string): string =>
      `BEGIN UPDATE seat SET n = 1 WHERE id = '${seat}'; COMMIT;
        UPDATE seat SET owner = 'stale' WHERE id = '${seat}'; END`;

    it.each([
      'CALL batch()',
      '/* a /* nested */ comment */ CALL batch()',
      '-- a line\n call batch()',
      'DO',
    ])('writes nothing after its row is free again: %s', async (form) => {
      const body = BATCH(key);
      await pool.query(`CREATE OR REPLACE PROCEDURE batch() LANGUAGE plpgsql AS $$ ${body} $$`);
      const sql = form === 'DO' ? `DO $$ ${body} $$` : form;
      await expect(fence.statement(token(5), sql)).rejects.toMatchObject({ code: '2D000' });
      const { rows } = await pool.query('SELECT n, owner FROM seat WHERE id = $1', [key]);
      expect(rows).toEqual([{ n: null, owner: null }]);
    });

    it('runs one that does not commit, and refuses a stale token', async () => {
      await pool.query(`CREATE OR REPLACE PROCEDURE give(chosen text, name text, INOUT was text DEFAULT NULL) LANGUAGE plpgsql
        AS $$ BEGIN UPDATE seat SET owner = name WHERE id = chosen RETURNING owner INTO was; END $$`);
      const give = (value: number): Promise<readonly unknown[]> =>
        fence.statement(token(value), 'CALL give($1, $2)', [key, `owner ${value}`]);
      await expect(give(2)).resolves.toEqual([{ was: 'owner 2' }]);
      await expect(give(1)).rejects.toMatchObject({ code: 'STALE_TOKEN', currentToken: '2' });
      await expect(owner()).resolves.toBe('owner 2');
    });
  });

  it.each([
    'COPY seat (id) FROM STDIN',
    '-- data\n/* of /* all */ seats */ copy seat FROM stdin',
    'COPY seat(id)FROM/* the */STDIN',
    'COPY seat (id) FROM -- the\n STDIN',
    '; COPY"seat"FROM /* /* */ */ STDOUT',
    'COPY "seat" ("id") FROM STDIN (NULL \'/*\')',
  ])('refuses what waits for data that cannot be sent: %s', async (sql) => {
    const one = new pg.Pool({ connectionString: database.url, max: 1 });
    try {
      const copying = postgresFence(one, options).statement(token(1), sql);
      await expect(copying).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        message: expect.stringContaining('fence.transaction'),
      });
      await one.query('SELECT 1');
    } finally {
      await one.end();
    }
  });

  it.each([
    '/* replaces COPY seat FROM STDIN */ UPDATE seat SET n = 3 WHERE id = $1',
    '-- COPY seat FROM STDIN\n; UPDATE seat SET n = 3 WHERE id = $1',
    `/**/UPDATE seat SET n = 3, owner = 'COPY seat FROM STDIN' WHERE id = $1`,
  ])('does not take for such a one what only speaks of it: %s', async (sql) => {
    await expect(fence.statement(token(1), sql, [key])).resolves.toEqual([]);
    const { rows } = await pool.query('SELECT n FROM seat WHERE id = $1', [key]);
    expect(rows).toEqual([{ n: 3 }]);
  });

  it.each(['/**/', '-- \r', ' ;', '/* /* */ */', ' \n'])(
    'finds it behind 100,000 times %j',
    async (piece) => {
      const copying = fence.statement(token(1), `${piece.repeat(100_000)}COPY seat FROM STDIN`);
      await expect(copying).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    },
  );

  it.each(['COMMIT', 'END', 'ROLLBACK', '/* */ ABORT'])(
    'says that the statement ended its transaction: %s',
    async (sql) => {
      const ending = fence.statement(token(1), sql);
      await expect(ending).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        keys: [key],
        message: expect.stringMatching(/^The statement ended the transaction/),
      });
      await expect(fence.statement(token(2), WRITE, [key, 'ana'])).resolves.toHaveLength(1);
    },
  );

  it('copies out of and into files', async () => {
    await pool.query('CREATE TABLE copied (id text)');
    const copied = fence.statement(token(1), `COPY copied FROM PROGRAM 'echo STDIN'`);
    await expect(copied).resolves.toEqual([]);
    await pool.query('DROP TABLE copied');
  });

  it.each([false, true])('takes one statement only, with pipeline %j', async (pipeline) => {
    const one = new pg.Pool({ connectionString: database.url, pipeline });
    try {
      const write = `UPDATE seat SET owner = 'stale' WHERE id = '${key}'`;
      for (const sql of [`COMMIT; ${write}`, `SELECT 1; COMMIT; ${write}`]) {
        const several = postgresFence(one, options).statement(token(1), sql);
        await expect(several).rejects.toMatchObject({ code: '42601' });
      }
      await expect(owner()).resolves.toBeNull();
    } finally {
      await one.end();
    }
  });

  it('works over a client that can only send one statement after the other', async () => {
    const piped = new pg.Pool({ connectionString: database.url, pipeline: true });
    try {
      const piping = postgresFence(piped, options);
      await expect(piping.statement(token(2), WRITE, [key, 'ana'])).resolves.toEqual([
        { owner: 'ana' },
      ]);
      await expect(piping.statement(token(1), WRITE, [key, 'bob'])).rejects.toMatchObject({
        code: 'STALE_TOKEN',
      });
    } finally {
      await piped.end();
    }
  });

  it.each([
    ['the answer takes too long', 'SELECT pg_sleep(20), $1::text', /timeout/],
    ['the session ends', 'SELECT pg_terminate_backend(pg_backend_pid()), $1::text', /terminat/],
    ['a parameter cannot be sent', 'SELECT $1::text', /no text/],
  ])('throws the connection away when %s', async (_name, sql, message) => {
    const one = new pg.Pool({ connectionString: database.url, max: 1, query_timeout: 500 });
    one.on('error', () => undefined);
    try {
      const alone = postgresFence(one, options);
      const toPostgres = (): never => {
        throw new Error('no text');
      };
      const value = message.test('no text') ? { toPostgres } : key;
      await expect(alone.statement(token(2), sql, [value])).rejects.toThrow(message);
      // The server may still be at it, and hold the row of the fence.
      const other = token(2, [`${key}:other`]);
      await expect(alone.statement(other, WRITE, [key, 'ana'])).resolves.toHaveLength(1);
    } finally {
      await one.end();
      // The server would wait for it at its end.
      await pool.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE query LIKE '%pg_sleep(20)%' AND pid <> pg_backend_pid()`);
    }
  });

  it.each([
    ['a new row', 'INSERT', 'true', 5, 0],
    ['a row that is there', 'UPDATE', 'true', 5, 1],
    ['the first of two rows', 'INSERT', "NEW.resource NOT LIKE '%:z'", 5, 0],
    ['the second of two rows', 'INSERT', "NEW.resource LIKE '%:z'", 5, 0],
    ['one of two rows that are there', 'UPDATE', "NEW.resource LIKE '%:z'", 5, 1],
    ['one of two rows, and the other is newer', 'UPDATE', "NEW.resource LIKE '%:z'", 1, 2],
  ])(
    'writes nothing when the table of the fence does not keep %s',
    async (_case, event, when, value, before) => {
      const keys = [key, `${key}:z`];
      await pool.query(`CREATE TABLE silent_fence (LIKE redlock_fence INCLUDING ALL);
        CREATE OR REPLACE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`);
      try {
        const silent = postgresFence(pool, { ...options, table: 'silent_fence' });
        if (before > 0) await silent.statement(token(before, keys), 'SELECT 1');
        await pool.query(`CREATE TRIGGER silent BEFORE ${event} ON silent_fence FOR EACH ROW
          WHEN (${when}) EXECUTE FUNCTION drop_row()`);
        const write = silent.statement(token(value, keys), WRITE, [key, 'x']);
        await expect(write).rejects.toThrow(value < before ? /stale/i : /the fence kept no row/);
        await expect(owner()).resolves.toBeNull();
      } finally {
        await pool.query('DROP TABLE silent_fence');
      }
    },
  );
});
