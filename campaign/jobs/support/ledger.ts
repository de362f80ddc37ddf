import Database from 'libsql';
import type pg from 'pg';
import { postgresFence, sqliteFence, type FencingToken } from '../../../lib/fencing/index.ts';

/** Each run of a job writes twice: through the fence, and without one. */
export const KINDS = ['fenced', 'plain'] as const;
export type Kind = (typeof KINDS)[number];

/** What a run reads before its slow work. */
interface Known {
  readonly n: number;
  readonly done: boolean | number;
}

/** A store with the records of all jobs. */
interface Store {
  begin(kind: Kind, job: number, token: FencingToken): Promise<Known>;
  write(kind: Kind, job: number, token: FencingToken, known: Known): Promise<void>;
}

export interface Verdict {
  readonly store: string;
  readonly kind: Kind;
  readonly runs: number;
  readonly staleWrites: number;
  readonly lostUpdates: number;
  /** Jobs whose effect is not there once. */
  readonly notOnce: number;
}

const TABLES = (serial: string) => [
  'CREATE TABLE record (job integer, kind text, n integer, done boolean, PRIMARY KEY (job, kind))',
  `CREATE TABLE entry (seq ${serial}, job integer, kind text, event text, token bigint)`,
  'CREATE TABLE effect (job integer, kind text)',
];
const BEGAN = "INSERT INTO entry (job, kind, event, token) VALUES ($1, $2, 'began', $3)";
const WROTE = "INSERT INTO entry (job, kind, event, token) VALUES ($1, $2, 'wrote', $3)";
const RECORD = 'UPDATE record SET n = $3, done = true WHERE job = $1 AND kind = $2';
const READ = 'SELECT n, done FROM record WHERE job = $1 AND kind = $2';
const EFFECT = 'INSERT INTO effect VALUES ($1, $2)';
const ENTRIES = 'SELECT job, kind, event, token FROM entry ORDER BY seq';

const openFile = (path: string): Database.Database => {
  const database = new Database(path);
  for (const pragma of ['journal_mode = WAL', 'synchronous = OFF', 'busy_timeout = 20000'])
    database.pragma(pragma);
  return database;
};

export function createLedger(pool: pg.Pool, path: string, jobs: number): Promise<unknown> {
  const file = openFile(path);
  for (const sql of [sqliteFence(file).ddl(), ...TABLES('integer PRIMARY KEY')]) file.exec(sql);
  for (const kind of KINDS)
    file.exec(
      `WITH RECURSIVE i (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM i WHERE i < ${jobs - 1}) INSERT INTO record SELECT i, '${kind}', 0, false FROM i`,
    );
  file.close();
  const fill = KINDS.map(
    (kind) =>
      `INSERT INTO record SELECT i, '${kind}', 0, false FROM generate_series(0, ${jobs - 1}) i`,
  );
  return pool.query([postgresFence(pool).ddl(), ...TABLES('bigserial'), ...fill].join(';\n'));
}

export function inPostgres(pool: pg.Pool): Store {
  const fence = postgresFence(pool);
  const plain = async <Result>(work: (tx: pg.PoolClient) => Promise<Result>): Promise<Result> => {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      const result = await work(client);
      await client.query('COMMIT');
      return result;
    } finally {
      client.release();
    }
  };
  const run = <Result>(
    kind: Kind,
    token: FencingToken,
    work: (tx: pg.PoolClient) => Promise<Result>,
  ) => (kind === 'fenced' ? fence.transaction(token, work) : plain(work));
  return {
    begin: (kind, job, token) =>
      run(kind, token, async (tx) => {
        const { rows } = await tx.query(`${READ} FOR UPDATE`, [job, kind]);
        await tx.query(BEGAN, [job, kind, token.value]);
        return rows[0] as Known;
      }),
    write: (kind, job, token, { n, done }) =>
      run(kind, token, async (tx) => {
        await tx.query(RECORD, [job, kind, n + 1]);
        await tx.query(WROTE, [job, kind, token.value]);
        if (!done) await tx.query(EFFECT, [job, kind]);
      }),
  };
}

export function inSqlite(path: string): Store {
  const file = openFile(path);
  const fence = sqliteFence(file);
  const send = (sql: string, ...values: unknown[]) =>
    file.prepare(sql.replaceAll(/\$\d/g, '?$&').replaceAll('?$', '?')).all(...values);
  const plain = <Result>(work: () => Result): Result => {
    file.exec('BEGIN IMMEDIATE');
    const result = work();
    file.exec('COMMIT');
    return result;
  };
  const run = async <Result>(
    kind: Kind,
    token: FencingToken,
    work: () => Result,
  ): Promise<Result> => (kind === 'fenced' ? fence.transaction(token, work) : plain(work));
  return {
    begin: (kind, job, token) =>
      run(kind, token, () => {
        const [known] = send(READ, job, kind);
        send(BEGAN, job, kind, token.value);
        return known as Known;
      }),
    write: (kind, job, token, { n, done }) =>
      run(kind, token, () => {
        send(RECORD, job, kind, n + 1);
        send(WROTE, job, kind, token.value);
        if (!done) send(EFFECT, job, kind);
      }),
  };
}

/** How many jobs have their effect in both stores, through the fence. */
export async function countEffects(pool: pg.Pool, path: string): Promise<number> {
  const sql = "SELECT count(DISTINCT job) AS count FROM effect WHERE kind = 'fenced'";
  const file = openFile(path);
  const [inFile] = file.prepare(sql).all() as { count: number }[];
  file.close();
  const { rows } = await pool.query(sql);
  return Math.min(Number(rows[0].count), inFile!.count);
}

export async function judge(pool: pg.Pool, path: string): Promise<readonly Verdict[]> {
  const file = openFile(path);
  const stores = {
    PostgreSQL: async (sql: string) => (await pool.query(sql)).rows,
    SQLite: async (sql: string) => file.prepare(sql).all(),
  };
  const verdicts: Verdict[] = [];
  for (const [store, query] of Object.entries(stores)) {
    const [entries, records, effects] = [
      await query(ENTRIES),
      await query('SELECT job, kind, n FROM record'),
      await query('SELECT job, kind FROM effect'),
    ] as any[][];
    for (const kind of KINDS)
      verdicts.push({ store, kind, ...judgeKind(kind, entries!, records!, effects!) });
  }
  file.close();
  return verdicts;
}

function judgeKind(kind: Kind, entries: any[], records: any[], effects: any[]) {
  const newest = new Map<number, number>();
  const writes = new Map<number, number>();
  let runs = 0;
  let staleWrites = 0;
  for (const { job, event, token } of entries.filter((entry) => entry.kind === kind)) {
    const value = Number(token);
    if (event === 'began') {
      runs += 1;
      newest.set(job, Math.max(value, newest.get(job) ?? 0));
    } else {
      writes.set(job, (writes.get(job) ?? 0) + 1);
      if (value < newest.get(job)!) staleWrites += 1;
    }
  }
  const own = records.filter((record) => record.kind === kind);
  const done = new Map<number, number>();
  for (const effect of effects)
    if (effect.kind === kind) done.set(effect.job, (done.get(effect.job) ?? 0) + 1);
  const lost = own.map(({ job, n }) => (writes.get(job) ?? 0) - n);
  return {
    runs,
    staleWrites,
    lostUpdates: lost.reduce((sum, each) => sum + each, 0),
    notOnce: own.filter(({ job }) => done.get(job) !== 1).length,
  };
}
