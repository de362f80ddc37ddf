import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { sqliteFence, type SqliteFence } from '../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../lib/fencing/sql/sql-error.ts';
import { chance } from './chance.ts';
import { START, type CommittedWrite } from './commit-order.ts';
import { installSqlite } from '../../test/support/databases/install-sqlite.ts';
import { FORGET } from '../../test/fencing/support/forget.ts';
import { WRONG_PATTERNS, type Ledger } from './patterns.ts';
import { resourcesOf, RIGHT, type Holder } from './holders.ts';
import type { Record } from './record.ts';
import { noting, runRight, wrongWays, type StressedStore } from './store.ts';

type Connection = Database.Database;

interface Writer {
  readonly database: Connection;
  readonly fence: SqliteFence<Connection>;
}

const CONNECTIONS = 3;

/** Repeats the transaction while another connection has the file, or an asynchronous transaction this one. */
async function untilFree(transaction: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await transaction();
    } catch (error) {
      if (!isRetryableSqlError(error)) throw error;
      await sleep(1 + chance.fraction() * 5);
    }
  }
}

/**
 * Judged by a journal whose numbers are the order of commits: SQLite has one writer at a time. Each connection has the fence's
 * transactions, and synchronous ones of its own between them.
 */
export async function sqliteStore(record: Record): Promise<StressedStore> {
  await installSqlite();
  const folder = mkdtempSync(join(tmpdir(), 'fenced-lock-stress-'));
  const file = join(folder, 'data.db');
  const open = (): Writer => {
    const database = new Database(file, { timeout: 2 });
    database.pragma('journal_mode = WAL');
    return { database, fence: sqliteFence(database, record.options) };
  };
  let writers = [open()];
  const [{ database, fence }] = writers as [Writer];
  database.exec(`${fence.ddl()} CREATE TABLE ledger (resource TEXT PRIMARY KEY, writer TEXT);
    CREATE TABLE journal (number INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT, writer TEXT, token INTEGER, read_from TEXT)`);
  const insert = database.prepare('INSERT INTO ledger VALUES (?, ?)');
  for (const name of [RIGHT, ...Object.keys(WRONG_PATTERNS)].flatMap(resourcesOf))
    insert.run(name, START);
  while (writers.length < CONNECTIONS) writers.push(open());
  /** The connections that their writers still use when they are replaced. */
  const retired: Writer[] = [];

  const select = 'SELECT writer FROM ledger WHERE resource = ?';
  // These connections are beside those of the writers, which would see what their transactions have not committed.
  const [reader, control] = [open(), open()];
  const change = (own: Connection, { resource, token }: Holder, readFrom: string): string => {
    const writer = randomUUID();
    own.prepare('UPDATE ledger SET writer = ? WHERE resource = ?').run(writer, resource);
    own
      .prepare('INSERT INTO journal (resource, writer, token, read_from) VALUES (?, ?, ?, ?)')
      .run(resource, writer, token.value, readFrom);
    return writer;
  };
  const read = (own: Connection, { resource }: Holder): string =>
    (own.prepare(select).get(resource) as { writer: string }).writer;

  const ledgerOf = ({ fence: itsFence }: Writer): Ledger<Connection> => ({
    fence: itsFence,
    read: async (holder, tx) => read(tx ?? reader.database, holder),
    write: async (tx, holder, readFrom) => change(tx, holder, readFrom),
    fenced: ({ token }, work) => itsFence.transaction(token, work, { attempts: 2_000 }),
    // A connection of its own: asynchronous work leaves room for others.
    ownTransaction: (work) =>
      untilFree(async () => {
        const alone = new Database(file, { timeout: 2 });
        try {
          alone.exec('BEGIN IMMEDIATE');
          await work(alone);
          alone.exec('COMMIT');
        } finally {
          alone.close();
        }
      }),
  });
  /** Writes as in `database.transaction(…)`: nothing comes between. */
  const synchronous = ({ database: own, fence: itsFence }: Writer, holder: Holder) =>
    untilFree(async () => {
      if (own.inTransaction) throw Object.assign(new Error('busy'), { code: 'SQLITE_BUSY' });
      const write = own.transaction(() => {
        itsFence.advanceSync(own, holder.token);
        return change(own, holder, read(own, holder));
      });
      record.acknowledged.add(write.immediate());
    });
  return {
    workers: 6,
    right: (holder) => {
      const writer = chance.pick(writers);
      if (chance.fraction() < 0.5) return synchronous(writer, holder);
      return runRight(noting(ledgerOf(writer), record), holder);
    },
    wrong: wrongWays(ledgerOf(control)),
    async prune(before) {
      const { database: own, fence: itsFence } = chance.pick(writers);
      await itsFence.prune();
      let count = 0;
      await untilFree(async () => {
        if (own.inTransaction) throw Object.assign(new Error('busy'), { code: 'SQLITE_BUSY' });
        count = own.prepare(FORGET.questionMark).run(before).changes;
      });
      return count;
    },
    async crash() {
      retired.push(...writers);
      writers = writers.map(open);
    },
    history: async () =>
      reader.database
        .prepare(
          'SELECT resource, writer, token, read_from AS readFrom FROM journal ORDER BY number',
        )
        .safeIntegers()
        .all() as CommittedWrite[],
    async close() {
      for (const each of [reader, control, ...retired, ...writers]) each.database.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
