import { randomUUID } from 'node:crypto';
import {
  createPool,
  type Pool,
  type PoolConnection,
  type ResultSetHeader,
  type RowDataPacket,
} from 'mysql2/promise';
import { mysqlFence, type IsolationLevel } from '../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../lib/fencing/sql/sql-error.ts';
import { startMariadb } from '../../test/support/databases/mariadb-server.ts';
import { chance } from './chance.ts';
import { START, type CommittedWrite } from './commit-order.ts';
import { retried, WRONG_PATTERNS, type Ledger } from './patterns.ts';
import { FORGET } from '../../test/fencing/support/forget.ts';
import { inMariadb } from '../../test/fencing/support/hand-written-transactions.ts';
import { resourcesOf, RIGHT, type Holder } from './holders.ts';
import type { Record } from './record.ts';
import { noting, runRight, wrongWays, type StressedStore } from './store.ts';

const LEVELS: readonly IsolationLevel[] = ['read committed', 'repeatable read', 'serializable'];
const WORKERS = 16;

/** A commit is in the log before it is answered, and its statement beside its rows. */
const LOGGED =
  '--log-bin=changes --server-id=1 --binlog-format=ROW --binlog-annotate-row-events=1 --innodb-flush-log-at-trx-commit=1 --innodb-lock-wait-timeout=20';

/** The errno of SHOW BINLOG EVENTS when an event is not whole. */
const TORN = 1_220;

const NOTE = /^INSERT INTO journal VALUES \('([^']*)', '([^']*)', (\d+), '([^']*)'\)/;

/** Reading again behind the advance doesn't help: the first SELECT froze what this transaction sees. */
const readBeforeAdvance = (ledger: Ledger<PoolConnection>, holder: Holder) =>
  ledger.ownTransaction(async (connection) => {
    await ledger.read(holder, connection);
    await holder.nap();
    await ledger.fence.advance(connection, holder.token);
    await ledger.write(connection, holder, await ledger.read(holder, connection));
  });

/** A killed server's log may end in the middle of an event. Transactions without their Xid were not committed. */
function committedIn(pool: Pool, file: string, isOfKilled: boolean): Promise<CommittedWrite[]> {
  const committed: CommittedWrite[] = [];
  const open: CommittedWrite[] = [];
  return new Promise((resolve, reject) => {
    const events = pool.pool.query('SHOW BINLOG EVENTS IN ?', [file]);
    events.on('result', ({ Event_type: type, Info: text }: RowDataPacket) => {
      const [, resource, writer, token, readFrom] =
        (type === 'Annotate_rows' && NOTE.exec(String(text))) || [];
      if (resource && writer && token && readFrom)
        open.push({ resource, writer, token: BigInt(token), readFrom });
      if (type === 'Xid') committed.push(...open.splice(0));
    });
    events.on('error', (error: NodeJS.ErrnoException) =>
      isOfKilled && error.errno === TORN ? resolve(committed) : reject(error),
    );
    events.on('end', () => resolve(committed));
  });
}

/** It is judged by the binary log. */
export async function mariadbStore(record: Record): Promise<StressedStore> {
  const server = await startMariadb(LOGGED.split(' '));
  const pool = createPool({ uri: server.url, connectionLimit: WORKERS + 6 });
  const fence = mysqlFence(pool, record.options);
  await pool.query(fence.ddl());
  await pool.query(
    'CREATE OR REPLACE TABLE ledger (resource VARCHAR(100) PRIMARY KEY, writer VARCHAR(50)) ENGINE = InnoDB',
  );
  await pool.query(
    'CREATE OR REPLACE TABLE journal (resource VARCHAR(100), writer VARCHAR(50), token BIGINT, read_from VARCHAR(50)) ENGINE = InnoDB',
  );
  const names = [RIGHT, ...Object.keys(WRONG_PATTERNS), 'readBeforeAdvance'];
  const resources = names.flatMap(resourcesOf);
  await pool.query('INSERT INTO ledger VALUES ?', [resources.map((name) => [name, START])]);

  const ledger = (isolationLevel: IsolationLevel): Ledger<PoolConnection> => ({
    fence,
    read: async ({ resource }, tx) => {
      const text = 'SELECT writer FROM ledger WHERE resource = ?';
      const [rows] = await (tx ?? pool).query<RowDataPacket[]>(text, [resource]);
      return rows[0]!['writer'] as string;
    },
    write: async (tx, { resource, token }, readFrom) => {
      const writer = randomUUID();
      await tx.query('UPDATE ledger SET writer = ? WHERE resource = ?', [writer, resource]);
      await tx.query('INSERT INTO journal VALUES (?, ?, ?, ?)', [
        resource,
        writer,
        token.value,
        readFrom,
      ]);
      return writer;
    },
    fenced: ({ token }, work) => fence.transaction(token, work, { isolationLevel, attempts: 200 }),
    ownTransaction: (work) => retried(() => inMariadb(pool, work), isRetryableSqlError),
  });

  return {
    workers: WORKERS,
    right: (holder) => runRight(noting(ledger(chance.pick(LEVELS)), record), holder),
    wrong: {
      ...wrongWays(ledger('repeatable read')),
      readBeforeAdvance: (holder) => readBeforeAdvance(ledger('repeatable read'), holder),
    },
    async prune(before) {
      await fence.prune();
      let count = 0;
      await retried(async () => {
        const [{ affectedRows }] = await pool.query<ResultSetHeader>(FORGET.questionMark, [before]);
        count = affectedRows;
      }, isRetryableSqlError);
      return count;
    },
    async crash() {
      if (server.crash) return server.crash();
      const [rows] = await pool.query<RowDataPacket[]>(
        'SELECT id FROM information_schema.processlist WHERE id <> connection_id()',
      );
      for (const { id } of rows) await pool.query(`KILL ${id}`).catch(() => undefined);
    },
    async history() {
      const [files] = await pool.query<RowDataPacket[]>('SHOW BINARY LOGS');
      const logs = files.map(({ Log_name: name }) => String(name));
      const writes = logs.map((log) => committedIn(pool, log, log !== logs.at(-1)));
      return (await Promise.all(writes)).flat();
    },
    async close() {
      await pool.end();
      await server.stop();
    },
  };
}
