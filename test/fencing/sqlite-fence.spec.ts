import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import Database from 'better-sqlite3';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { sqliteFence, type FenceEvent, type FenceToken } from '../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../lib/fencing/sql/sql-error.ts';
import { nodeSqlite, type OpenSqlite } from './support/node-sqlite.ts';

const token = (value: number): FencingToken => new FencingToken(value, ['seat'], `h${value}`);
const stale = expect.objectContaining({ code: 'STALE_TOKEN', currentToken: '9' });

describe.each(['better-sqlite3', 'node:sqlite, where Node.js has it,'])('with %s', (driver) => {
  const Driver = (driver === 'better-sqlite3' ? undefined : nodeSqlite()) ?? Database;
  let folder: string;
  let file: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'fenced-lock-sqlite-'));
    file = join(folder, 'data.db');
    const database = new Database(file);
    database.exec(sqliteFence(database).ddl());
    database.close();
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('waits when another process holds the file longer than the busy timeout', async () => {
    const [other, database] = [new Database(file), new Driver(file, { timeout: 5 })];
    try {
      const events: string[] = [];
      const fence = sqliteFence(database, { onEvent: ({ type }) => void events.push(type) });
      other.exec('BEGIN IMMEDIATE');
      const waiting = fence.transaction(token(1), () => 'done', { attempts: 1 });
      await sleep(60);
      other.exec('COMMIT');
      await expect(waiting).resolves.toBe('done');
      expect(events).toEqual(['admitted']);
    } finally {
      other.close();
      database.close();
    }
  });

  it('tries again when the file is busy at the commit, because another process reads', async () => {
    const [other, database] = [new Database(file), new Driver(file, { timeout: 5 })];
    try {
      const events: FenceEvent[] = [];
      const fence = sqliteFence(database, { onEvent: (event) => void events.push(event) });
      other.exec('BEGIN; SELECT * FROM redlock_fence');
      const waiting = fence.transaction(token(1), () => 'done', { attempts: 1_000 });
      await sleep(60);
      other.exec('COMMIT');
      await expect(waiting).resolves.toBe('done');
      expect(events[0]).toMatchObject({ type: 'retried' });
    } finally {
      other.close();
      database.close();
    }
  });

  it('takes a token that came through a queue as JSON for that of its holder', async () => {
    const database = new Driver(file);
    try {
      const fence = sqliteFence(database);
      const received = JSON.parse(JSON.stringify(token(2 ** 53 - 1))) as FenceToken;
      await fence.claim(token(2 ** 53 - 1));
      await expect(fence.transaction(received, () => 'written')).resolves.toBe('written');
      const forged = { ...received, holder: 'other' };
      await expect(fence.claim(forged)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    } finally {
      database.close();
    }
  });

  it('lets the fences over one connection take turns', async () => {
    const database = new Driver(file);
    try {
      const [first, second] = [sqliteFence(database), sqliteFence(database)];
      const steps: string[] = [];
      const uses = [first, second, first].map((fence, index) =>
        fence.transaction(token(1 + index), async () => {
          steps.push('begin');
          await sleep(5);
          steps.push('end');
        }),
      );
      await Promise.all([...uses, second.claim(token(4))]);
      expect(steps).toEqual(['begin', 'end', 'begin', 'end', 'begin', 'end']);
    } finally {
      database.close();
    }
  });

  it('checks synchronously in a synchronous transaction', async () => {
    const database = new Driver(file);
    try {
      const refunds: string[] = [];
      const fence = sqliteFence(database, { onStale: (error) => void refunds.push(error.token) });
      await fence.claim(token(9));
      database.exec('CREATE TABLE seat (owner TEXT)');
      const write = (value: number): void => {
        database.exec('BEGIN IMMEDIATE');
        try {
          fence.advanceSync(database, token(value));
          database.exec("INSERT INTO seat VALUES ('x'); COMMIT");
        } catch (error) {
          database.exec('ROLLBACK');
          throw error;
        }
      };
      expect(() => write(8)).toThrow(stale);
      write(9);
      expect(database.prepare('SELECT owner FROM seat').all()).toHaveLength(1);
      expect(() => fence.advanceSync(database, token(10))).toThrow(/outside a transaction/);
      await Promise.resolve();
      expect(refunds).toEqual(['8']);
    } finally {
      database.close();
    }
  });

  it.each(['advance', 'advanceSync'] as const)(
    'checks by %s on the connection whose transaction it was given',
    (call) => {
      const [first, older, newer] = [0, 0, 0].map((timeout) => new Driver(file, { timeout })) as [
        OpenSqlite,
        OpenSqlite,
        OpenSqlite,
      ];
      try {
        const fence = sqliteFence(first);
        older.exec('CREATE TABLE seat (owner TEXT)');
        older.exec('BEGIN');
        void fence[call](older, token(8));
        const claiming = () => {
          newer.exec('BEGIN IMMEDIATE');
          void fence[call](newer, token(9));
          newer.exec('COMMIT');
        };
        expect(claiming).toThrow(/locked/);
        older.exec("INSERT INTO seat VALUES ('older'); COMMIT");
        claiming();
        older.exec('BEGIN');
        expect(() => fence[call](older, token(8))).toThrow(stale);
        older.exec('ROLLBACK');
      } finally {
        for (const database of [first, older, newer]) database.close();
      }
    },
  );

  it('refuses at once what advance is to refuse, and awaits like others', async () => {
    const database = new Driver(file);
    try {
      const events: string[] = [];
      const onEvent = ({ type }: FenceEvent) => void events.push(type);
      const fence = sqliteFence(database, { onEvent, onStale: () => void events.push('refund') });
      expect(() => fence.advance(database, token(1))).toThrow(/outside a transaction/);
      expect(() => fence.advance(database, undefined)).toThrow(/fencing token is needed/);
      database.exec('BEGIN IMMEDIATE');
      await fence.advance(database, token(9));
      expect(events).toEqual(['admitted']);
      expect(() => fence.advance(database, token(8))).toThrow(stale);
      database.exec('ROLLBACK');
      await Promise.resolve();
      expect(events).toEqual(['admitted', 'stale', 'refund']);
    } finally {
      database.close();
    }
  });

  it.each(['advance', 'advanceSync'] as const)(
    'rolls a transaction of the fence back in which a refusal by %s was swallowed',
    async (call) => {
      const database = new Driver(file);
      try {
        const fence = sqliteFence(database);
        await fence.claim({ value: 9, keys: ['other'], holder: 'newer' });
        const other = { value: 8, keys: ['other'], holder: 'older' };
        const rejected = fence.transaction(token(1), async (tx) => {
          await (async () => fence[call](tx, other))().catch(() => undefined);
        });
        await expect(rejected).rejects.toEqual(stale);
        await expect(fence.transaction(token(1), () => 'admitted')).resolves.toBe('admitted');
      } finally {
        database.close();
      }
    },
  );
});

it.each(['advance', 'advanceSync'] as const)(
  'rolls a transaction of better-sqlite3 back when %s refuses',
  (call) => {
    const database = new Database(':memory:');
    const fence = sqliteFence(database);
    database.exec(`${fence.ddl()} CREATE TABLE seat (owner TEXT)`);
    const write = database.transaction((value: number) => {
      void fence[call](database, token(value));
      database.exec("INSERT INTO seat VALUES ('x')");
    });
    write(9);
    expect(() => write(8)).toThrow(stale);
    expect(database.prepare('SELECT owner FROM seat').all()).toHaveLength(1);
  },
);

it.each([
  [{ code: 'ERR_SQLITE_ERROR', errcode: 5 }, true],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 261 }, true],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 773 }, true],
  [{ code: 'ERR_SQLITE_ERROR', errcode: 19 }, false],
  [{ code: 'SQLITE_BUSY_RECOVERY' }, true],
  [{ code: 'SQLITE_BUSY_TIMEOUT' }, true],
  [{ code: 'SQLITE_CONSTRAINT' }, false],
  [{ code: 'EIO', errno: 5 }, false],
])('tells from %j whether the file was busy: %j', (fields, isBusy) => {
  expect(isRetryableSqlError(Object.assign(new Error('no'), fields))).toBe(isBusy);
});
