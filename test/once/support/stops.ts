import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** The statements of a run by what they do, from when the slow part is done. */
const STATEMENTS: readonly (readonly [name: string, form: RegExp])[] = [
  ['look', /FROM (redlock_once|beside)/],
  ['begin', /^BEGIN|autocommit = 0/],
  ['advance', /INSERT INTO redlock_fence/],
  ['effect', /INTO effect/],
  ['store', /INSERT INTO redlock_once|UPDATE beside/],
  ['commit', /COMMIT$/],
];

/** The points at which a run may end, in their order. */
export const POINTS = [
  'before first look',
  'first look is sent',
  'first look is answered',
  'the lock is held',
  'the slow part is done',
  'before begin',
  'begin is answered',
  'advance is sent',
  'advance is answered',
  'look is answered',
  'effect is sent',
  'effect is answered',
  'the work is done',
  'before store',
  'store is sent',
  'store is answered',
  'before commit',
  'commit is sent',
  'commit is answered',
  'the answer is known',
] as const;

export type Point = (typeof POINTS)[number];

/** One run, and the point at which it stops. */
export interface Stop {
  readonly key: string;
  readonly point: Point;
  /** Ends the process there, and where a statement is on its way, after this time. Absent: the run stays there for good. */
  readonly killMs?: number;
}

interface Running extends Stop {
  phase: 'first' | 'slow' | 'last';
  readonly stopped: () => void;
}

const running = new AsyncLocalStorage<Running>();

/** Runs what is to stop at a point. */
export function stopping<Result>(stop: Stop, stopped: () => void, run: () => Result): Result {
  return running.run({ ...stop, stopped, phase: 'first' }, run);
}

/** A point of a run. Returns a promise only where it stays there. */
export function at(point: string): Promise<never> | undefined {
  const run = running.getStore();
  if (run?.point !== point) return undefined;
  if (run.killMs === undefined) {
    run.stopped();
    return new Promise(() => undefined);
  }
  if (!point.endsWith('sent')) process.kill(process.pid, 'SIGKILL');
  run.stopped();
  return undefined;
}

/**
 * Makes a thread that ends the process when it is told to, also while the process waits for a disk.
 *
 * @param afterMs how long after that
 */
export async function killerAfter(afterMs: number): Promise<() => void> {
  const shared = new Int32Array(new SharedArrayBuffer(8));
  const source = `const shared = require('node:worker_threads').workerData;
Atomics.wait(shared, 0, 0);
Atomics.wait(shared, 1, 0, ${afterMs});
process.kill(process.pid, 'SIGKILL');`;
  await once(new Worker(source, { eval: true, workerData: shared }), 'online');
  return () => {
    Atomics.store(shared, 0, 1);
    Atomics.notify(shared, 0);
  };
}

/** The slow part of a run. */
export async function doSlowly(): Promise<void> {
  const run = running.getStore();
  if (run) run.phase = 'slow';
  await at('the lock is held');
  if (run) run.phase = 'last';
  await at('the slow part is done');
}

function nameOf(sql: string): string | undefined {
  const phase = running.getStore()?.phase;
  const name = phase && STATEMENTS.find(([, form]) => form.test(sql))?.[0];
  if (phase === 'first') return name === 'look' ? 'first look' : undefined;
  return phase === 'last' ? name : undefined;
}

/** Gives the statements of a connection of `pg` or `mysql2` their points. */
export function tapConnection<Connection extends { query: any }>(
  connection: Connection,
): Connection {
  if (Object.hasOwn(connection, 'query')) return connection;
  const query = connection.query.bind(connection);
  connection.query = (statement: any, ...rest: any[]) => {
    const name = nameOf(statement.text ?? statement.sql ?? statement);
    if (name === undefined) return query(statement, ...rest);
    const send = async () => {
      await at(`before ${name}`);
      const answer = query(statement, ...rest);
      answer.catch(() => undefined);
      await at(`${name} is sent`);
      const rows = await answer;
      await at(`${name} is answered`);
      return rows;
    };
    return send();
  };
  return connection;
}

/** The same for a database of SQLite, whose statements answer at once. */
export function tapSqlite<Database extends { prepare: any; exec: any }>(
  database: Database,
): Database {
  const [prepare, exec] = [database.prepare.bind(database), database.exec.bind(database)];
  const tapped = (sql: string, send: () => unknown) => {
    const name = nameOf(sql);
    const stay = at(`before ${name}`) ?? at(`${name} is sent`);
    if (stay) return stay;
    const rows = send();
    return at(`${name} is answered`) ?? rows;
  };
  database.exec = (sql: string) => tapped(sql, () => exec(sql));
  database.prepare = (sql: string) => {
    const statement = prepare(sql);
    return { all: (...values: unknown[]) => tapped(sql, () => statement.all(...values)) };
  };
  return database;
}
