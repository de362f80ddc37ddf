import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { FencingToken } from '../../../lib/core/fencing-token.ts';
import { sqliteFence, type FenceEvent, type SqliteFence } from '../../../lib/fencing/index.ts';
import type { OpenSqlite, SqliteDriver } from './sqlite-drivers.ts';

const now = Date.now() * 1_000;
const token = (value: number, keys = ['seat']): FencingToken =>
  new FencingToken(now + value, keys, `h${value}`);
const stale = expect.objectContaining({ code: 'STALE_TOKEN', currentToken: String(now + 9) });
const AGE = { maxAge: '1d' } as const;

/** Busy timeout that only a driver uses up which waits synchronously: the process stands still for as long. */
const PATIENT = { timeout: 60_000 } as const;

const uses: Readonly<Record<string, (fence: SqliteFence<OpenSqlite>) => Promise<unknown>>> = {
  transaction: (fence) => fence.transaction(token(1), () => 'done'),
  claim: (fence) => fence.claim(token(1)),
  prune: (fence) => fence.prune(),
  check: (fence) => fence.check(),
};
const NAMES = Object.keys(uses);
const CALLS = ['advance', 'advanceSync'] as const;

/** Lets the process go on until the condition holds. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await nextTurn();
}

/** Tests of what SQLite alone owes: one transaction at a time on a connection and a file, and synchronous ones. */
export function itKeepsSqlitePromises(driver: string, Driver: SqliteDriver): void {
  describe(`with ${driver}`, () => {
    let folder: string;
    let application: OpenSqlite;
    const opened: OpenSqlite[] = [];

    const open = (options: { timeout: number } = PATIENT): OpenSqlite => {
      const database = new Driver(join(folder, 'data.db'), options);
      opened.push(database);
      return database;
    };
    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), 'fenced-lock-sqlite-'));
      application = open({ timeout: 0 });
      application.exec('PRAGMA journal_mode = WAL; CREATE TABLE note (text TEXT)');
      application.exec(sqliteFence(application).ddl());
    });
    afterEach(() => {
      jest.restoreAllMocks();
      for (const database of opened.splice(0)) database.close();
      rmSync(folder, { recursive: true, force: true });
    });
    const notes = () => application.prepare('SELECT text FROM note').all();

    /** Counts how often a transaction was to be begun on the connection. */
    const countBegins = (database: OpenSqlite): (() => number) => {
      const exec = jest.spyOn(database, 'exec');
      return () => exec.mock.calls.filter(([sql]) => sql.includes('BEGIN IMMEDIATE')).length;
    };

    it.each(NAMES)(
      'leaves the event loop free while %s waits for a transaction of this process',
      async (use) => {
        const fenced = open();
        const begins = countBegins(fenced);
        application.exec("BEGIN IMMEDIATE; INSERT INTO note VALUES ('own')");
        let isOver = false;
        const using = uses[use]!(sqliteFence(fenced, AGE)).finally(() => (isOver = true));
        await until(() => isOver || begins() > 2);
        application.exec("INSERT INTO note VALUES ('own'); COMMIT");
        expect(isOver).toBe(false);
        await using;
        expect(notes()).toHaveLength(2);
      },
    );

    it.each([
      [1_234, 1_500, 6_000],
      [60_000, 50_000, 70_000],
    ])(
      'with a busy timeout of %i ms waits for %i ms, and has given up after %i ms',
      async (timeout, early, late) => {
        const fenced = open({ timeout });
        const begins = countBegins(fenced);
        const busyTimeout = () => fenced.prepare('PRAGMA busy_timeout').all()[0].timeout;
        const fence = sqliteFence(fenced, AGE);
        let nowMs = 0;
        jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
        let work = 0;
        application.exec('BEGIN IMMEDIATE');
        let settled = false;
        const waiting = fence
          .transaction(token(1), () => (work += 1))
          .catch((error: unknown) => error)
          .finally(() => (settled = true));
        await until(() => settled || begins() > 0);
        nowMs = early;
        const before = begins();
        await until(() => settled || begins() > before + 1);
        expect([settled, busyTimeout()]).toEqual([false, timeout]);
        nowMs = late;
        const error = (await waiting) as Error & { code: string; cause: Error & { code: string } };
        expect(error.message).toMatch(/file was busy for \d+ ms: another connection/);
        expect(error.cause.message).toMatch(/locked/);
        expect([error.code, /SQLITE/.test(error.code)]).toEqual([error.cause.code, true]);
        expect([work, busyTimeout()]).toEqual([0, timeout]);
        application.exec('COMMIT');
        await fence.transaction(token(1), () => expect(busyTimeout()).toBe(timeout));
      },
    );

    it('tries again when the file is busy at the commit, because another process reads', async () => {
      application.exec('PRAGMA journal_mode = DELETE');
      const events: FenceEvent[] = [];
      const onEvent = (event: FenceEvent) => void events.push(event);
      const fence = sqliteFence(open({ timeout: 5 }), { onEvent });
      application.exec('BEGIN; SELECT * FROM redlock_fence');
      const waiting = fence.transaction(token(1), () => 'done', { attempts: 1_000 });
      await until(() => events.length > 0);
      application.exec('COMMIT');
      await expect(waiting).resolves.toBe('done');
      expect(events[0]).toMatchObject({ type: 'retried' });
    });

    it.each(NAMES)(
      'refuses %s while another transaction is open on its connection, and leaves that alone',
      async (name) => {
        const fenced = open();
        const fence = sqliteFence(fenced, AGE);
        fenced.exec("BEGIN; INSERT INTO note VALUES ('own')");
        await expect(uses[name]!(fence)).rejects.toMatchObject({
          code: 'FENCED_USAGE',
          message: expect.stringMatching(/a second one cannot be begun/),
        });
        fenced.exec('COMMIT');
        expect(notes()).toHaveLength(1);
        await uses[name]!(fence);
      },
    );

    it('lets the fences over one connection, and over one file, take turns', async () => {
      const database = open();
      const [first, second, other] = [database, database, open()].map((each) => sqliteFence(each));
      const steps: string[] = [];
      const fences = [first!, second!, first!, other!];
      const working = fences.map((fence, index) =>
        fence.transaction(token(1, [`turn ${index}`]), async () => {
          steps.push('begin');
          await sleep(5);
          steps.push('end');
        }),
      );
      await Promise.all([...working, second!.claim(token(4))]);
      expect(steps.join()).toBe('begin,end,begin,end,begin,end,begin,end');
    });

    it.each(CALLS)('checks by %s on the connection whose transaction it was given', (call) => {
      const [first, older, newer] = [0, 0, 0].map((timeout) => open({ timeout })) as [
        OpenSqlite,
        OpenSqlite,
        OpenSqlite,
      ];
      const fence = sqliteFence(first);
      older.exec('BEGIN');
      void fence[call](older, token(8));
      const claiming = () => {
        newer.exec('BEGIN IMMEDIATE');
        void fence[call](newer, token(9));
        newer.exec('COMMIT');
      };
      expect(claiming).toThrow(/locked/);
      older.exec("INSERT INTO note VALUES ('older'); COMMIT");
      claiming();
      older.exec('BEGIN');
      expect(() => fence[call](older, token(8))).toThrow(stale);
      older.exec('ROLLBACK');
    });

    it.each(CALLS)('refuses at once what %s is to refuse, and reports it', async (call) => {
      const database = open();
      const events: string[] = [];
      const onEvent = ({ type }: FenceEvent) => void events.push(type);
      const fence = sqliteFence(database, { onEvent, onStale: () => void events.push('refund') });
      expect(() => fence[call](database, token(1))).toThrow(/outside a transaction/);
      expect(() => fence[call](database, undefined)).toThrow(/fencing token is needed/);
      database.exec('BEGIN IMMEDIATE');
      await fence[call](database, token(9));
      await Promise.resolve();
      expect(events).toEqual(['admitted']);
      expect(() => fence[call](database, token(8))).toThrow(stale);
      database.exec('ROLLBACK');
      await Promise.resolve();
      expect(events).toEqual(['admitted', 'stale', 'refund']);
    });

    it.each(CALLS)(
      'rolls a transaction of the fence back in which a refusal by %s was swallowed, also a synchronous one',
      async (call) => {
        const fence = sqliteFence(open());
        await fence.claim(token(9, ['other']));
        const swallow = (tx: OpenSqlite): void => {
          try {
            void fence[call](tx, token(8, ['other']));
          } catch {
            // Work may do this, though it must not.
          }
        };
        for (const work of [swallow, async (tx: OpenSqlite) => swallow(tx)])
          await expect(fence.transaction(token(1), work)).rejects.toEqual(stale);
        await expect(fence.transaction(token(1), () => 'admitted')).resolves.toBe('admitted');
      },
    );

    it('runs synchronous work with nothing in between', async () => {
      const database = open();
      const fence = sqliteFence(database);
      const seen: unknown[] = [];
      const looking = async () => {
        for (let turn = 0; turn < 200; turn += 1) {
          seen.push(database.inTransaction ?? database.isTransaction ?? false);
          await Promise.resolve();
        }
      };
      const written = fence.transaction(token(1), (tx) => tx.exec("INSERT INTO note VALUES ('x')"));
      await Promise.all([written, looking()]);
      expect([notes().length, seen.includes(true)]).toEqual([1, false]);
    });

    if (!('transaction' in Driver.prototype)) return;

    it.each(CALLS)('rolls a transaction of the driver back when %s refuses', (call) => {
      const database = open() as OpenSqlite & {
        transaction(work: (value: number) => void): (value: number) => void;
      };
      const fence = sqliteFence<OpenSqlite>(database);
      const write = database.transaction((value: number) => {
        void fence[call](database, token(value));
        database.exec("INSERT INTO note VALUES ('x')");
      });
      write(9);
      expect(() => write(8)).toThrow(stale);
      expect(notes()).toHaveLength(1);
    });
  });
}
