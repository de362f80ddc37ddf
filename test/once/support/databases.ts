import Database from 'libsql';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { mysqlFence, postgresFence, sqliteFence, type Fence } from '../../../lib/fencing/index.ts';
import { onceDdl } from '../../../lib/once/index.ts';
import { postgresNode } from '../../../lib/postgres/index.ts';
import { tapConnection, tapSqlite } from './stops.ts';

type Row = Record<string, any>;

/** A database with a fence, the table of stored answers, and a table for what the work of a test does. */
export interface OnceDatabase {
  readonly fence: Fence;
  /** A pool, for locks in PostgreSQL. */
  readonly pool?: pg.Pool;
  /** Runs a statement, in a transaction where it is given one. */
  readonly run: (sql: string, transaction?: any) => Promise<Row[]>;
  readonly close: () => unknown;
}

/** Opens a database at its URL, or in a file. */
export const OPEN: Readonly<Record<string, (url: string) => OnceDatabase>> = {
  PostgreSQL: (connectionString) => {
    const pool = new pg.Pool({ connectionString, max: 60 });
    pool.on('error', () => undefined);
    pool.on('connect', tapConnection);
    return {
      pool,
      fence: postgresFence(pool),
      run: async (sql, client) => {
        const connection = client ?? (await pool.connect());
        const { rows } = await connection.query(sql);
        if (!client) connection.release();
        return rows;
      },
      close: () => pool.end(),
    };
  },
  MariaDB: (uri) => {
    const pool = createPool({ uri, connectionLimit: 60 });
    const getConnection = pool.getConnection.bind(pool);
    pool.getConnection = async () => tapConnection(await getConnection());
    return {
      fence: mysqlFence(pool),
      run: async (sql, client) => {
        const connection = client ?? (await pool.getConnection());
        const [rows] = await connection.query(sql);
        if (!client) connection.release();
        return rows as Row[];
      },
      close: () => pool.end(),
    };
  },
  SQLite: (file) => {
    const database = tapSqlite(new Database(file));
    return {
      fence: sqliteFence(database),
      run: async (sql) => {
        if (/^SELECT| RETURNING /.test(sql)) return database.prepare(sql).all() as Row[];
        if (sql.startsWith('UPDATE')) return database.prepare(`${sql} RETURNING 1`).all() as Row[];
        await (database.exec(sql) as unknown);
        return [];
      },
      close: () => database.close(),
    };
  },
};

export const KINDS = Object.keys(OPEN);

const EFFECT = 'CREATE TABLE IF NOT EXISTS effect (name VARCHAR(200), value VARCHAR(200))';

export async function createTables({ fence, pool, run }: OnceDatabase): Promise<void> {
  const tables = [pool ? postgresNode(pool).ddl() : fence.ddl(), onceDdl(fence), EFFECT];
  for (const sql of tables) await run(sql);
}

/** What work does. The value tells which run it was. */
export async function writeEffect(database: OnceDatabase, key: string, value: string, tx: unknown) {
  await database.run(`INSERT INTO effect VALUES ('${key}', '${value}') RETURNING 1`, tx);
}

/** What was done for a key. */
export async function effectsOf({ run }: OnceDatabase, key: string): Promise<string[]> {
  const rows = await run(`SELECT value FROM effect WHERE name = '${key}'`);
  return rows.map(({ value }) => value as string);
}
