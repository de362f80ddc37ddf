import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import Database from 'better-sqlite3';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { sqliteFence, type SqliteFence } from '../../lib/fencing/index.ts';
import { nodeSqlite, type OpenSqlite } from './support/node-sqlite.ts';

const token = (value: number): FencingToken =>
  new FencingToken(Date.now() * 1_000 + value, ['seat'], `h${value}`);

const AGE = { maxAge: '1d' } as const;

/** Of better-sqlite3, when nothing else is set. */
const SYNCHRONOUS_WAIT_MS = 5_000;

const uses: Readonly<Record<string, (fence: SqliteFence<OpenSqlite>) => Promise<unknown>>> = {
  transaction: (fence) => fence.transaction(token(1), () => 'done'),
  claim: (fence) => fence.claim(token(1)),
  prune: (fence) => fence.prune(),
  check: (fence) => fence.check(),
};

describe.each(['better-sqlite3', 'node:sqlite, where Node.js has it,'])('with %s', (driver) => {
  const Driver = (driver === 'better-sqlite3' ? undefined : nodeSqlite()) ?? Database;
  let folder: string;
  let file: string;
  let application: OpenSqlite;
  let writing: Promise<void> | undefined;
  const opened: OpenSqlite[] = [];

  const open = (options?: object): OpenSqlite => {
    const database = new Driver(file, options);
    opened.push(database);
    return database;
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'fenced-lock-sqlite-'));
    file = join(folder, 'data.db');
    application = open();
    application.exec('PRAGMA journal_mode = WAL; CREATE TABLE note (text TEXT)');
    application.exec(sqliteFence(application).ddl());
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await writing;
    writing = undefined;
    for (const database of opened.splice(0)) database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** A transaction of the application that waits between its statements. */
  const writeSlowly = async (): Promise<void> => {
    application.exec('BEGIN IMMEDIATE');
    for (let step = 0; step < 40; step += 1) {
      application.exec("INSERT INTO note VALUES ('step')");
      await sleep(10);
    }
    application.exec('COMMIT');
  };

  const busyTimeout = (database: OpenSqlite): unknown =>
    database.prepare('PRAGMA busy_timeout').all()[0].timeout;

  describe.each([undefined, 0])('whose busy timeout is %s', (timeout) => {
    it.each(Object.keys(uses))(
      'leaves the event loop free while %s waits for a transaction of this process',
      async (name) => {
        const fence = sqliteFence(open(timeout === undefined ? {} : { timeout }), AGE);
        const ticks = [performance.now()];
        const timer = setInterval(() => void ticks.push(performance.now()), 10);
        try {
          writing = writeSlowly();
          await uses[name]!(fence);
          expect(ticks.length).toBeGreaterThan(4);
          const gaps = ticks.slice(1).map((tick, index) => tick - ticks[index]!);
          expect(Math.max(...gaps)).toBeLessThan(SYNCHRONOUS_WAIT_MS / 2);
          await writing;
          expect(application.prepare('SELECT text FROM note').all()).toHaveLength(40);
        } finally {
          clearInterval(timer);
        }
      },
    );
  });

  it('waits while a fence over another connection has its asynchronous work', async () => {
    const [first, second] = [sqliteFence(open()), sqliteFence(open())];
    const steps: string[] = [];
    const working = first.transaction(token(1), async () => {
      steps.push('begin');
      await sleep(100);
      steps.push('end');
    });
    await sleep(10);
    await second.transaction(token(2), () => steps.push('second'));
    await working;
    expect(steps).toEqual(['begin', 'end', 'second']);
  });

  it.each([
    [1_234, 1_500, 6_000],
    [60_000, 50_000, 70_000],
  ])(
    'with a busy timeout of %i ms waits for %i ms, and has given up after %i ms',
    async (timeout, early, late) => {
      const fenced = open({ timeout });
      const fence = sqliteFence(fenced, AGE);
      const now = performance.now.bind(performance);
      let offset = 0;
      jest.spyOn(performance, 'now').mockImplementation(() => now() + offset);
      let work = 0;
      application.exec('BEGIN IMMEDIATE');
      let settled = false;
      const waiting = fence
        .transaction(token(1), () => (work += 1))
        .catch((error: unknown) => error)
        .finally(() => (settled = true));
      await sleep(150);
      offset = early;
      await sleep(150);
      expect(settled).toBe(false);
      expect(busyTimeout(fenced)).toBe(timeout);
      offset = late;
      const failure = await waiting;
      expect(failure).toMatchObject({
        message: expect.stringMatching(/file was busy for \d+ ms: another connection/),
        code: Driver === Database ? 'SQLITE_BUSY' : 'ERR_SQLITE_ERROR',
        cause: { message: expect.stringMatching(/locked/) },
      });
      expect(work).toBe(0);
      expect(busyTimeout(fenced)).toBe(timeout);
      application.exec('COMMIT');
      await fence.transaction(token(1), () => expect(busyTimeout(fenced)).toBe(timeout));
      expect(busyTimeout(fenced)).toBe(timeout);
    },
  );

  it.each(Object.keys(uses))(
    'refuses %s while another transaction is open on its connection, and leaves that alone',
    async (name) => {
      const fenced = open();
      const fence = sqliteFence(fenced, AGE);
      fenced.exec('BEGIN');
      fenced.prepare('SELECT text FROM note').all();
      await expect(uses[name]!(fence)).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        message: expect.stringMatching(/a second one cannot be begun/),
      });
      // It has no lock of the file.
      application.exec("INSERT INTO note VALUES ('meanwhile')");
      fenced.exec('ROLLBACK; BEGIN');
      fenced.exec("INSERT INTO note VALUES ('own')");
      await expect(uses[name]!(fence)).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      fenced.exec('COMMIT');
      expect(application.prepare('SELECT text FROM note').all()).toHaveLength(2);
      await uses[name]!(fence);
    },
  );
});
