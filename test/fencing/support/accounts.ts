import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import type { Pool as MariadbPool } from 'mysql2/promise';
import type { Pool as PostgresPool } from 'pg';
import {
  mysqlFence,
  postgresFence,
  type Fence,
  type FenceToken,
  type IsolationLevel,
  type SqlDialect,
} from '../../../lib/fencing/index.ts';
import { isRetryableSqlError } from '../../../lib/fencing/sql/sql-error.ts';
import { fenceConformance, type FenceStore, type FenceTicket } from '../../../lib/testing/index.ts';
import type { FencedClient } from './clients.ts';
import { FORGET } from './forget.ts';
import type { OpenSqlite } from './sqlite-drivers.ts';

/** The protected data of the conformance tests: one text per resource. */
export const ACCOUNT_DDL = {
  postgresql: 'CREATE TABLE account (resource text PRIMARY KEY, text text NOT NULL)',
  mysql:
    'CREATE TABLE IF NOT EXISTS account (resource VARCHAR(200) COLLATE utf8mb4_nopad_bin PRIMARY KEY, text VARCHAR(200) NOT NULL) ENGINE = InnoDB',
  sqlite: 'CREATE TABLE account (resource TEXT PRIMARY KEY, text TEXT NOT NULL)',
} as const;

export const UPSERT = {
  postgresql:
    'INSERT INTO account (resource, text) VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET text = EXCLUDED.text',
  mysql:
    'INSERT INTO account (resource, text) VALUES (?, ?) ON DUPLICATE KEY UPDATE text = VALUES(text)',
  sqlite:
    'INSERT INTO account (resource, text) VALUES (?, ?) ON CONFLICT (resource) DO UPDATE SET text = excluded.text',
} as const;

export const SELECT = {
  postgresql: 'SELECT text FROM account WHERE resource = $1',
  questionMark: 'SELECT text FROM account WHERE resource = ?',
} as const;

/** The upsert as one text, which every driver and ORM takes as it is. */
const HEX = {
  postgresql: (hex: string) => `convert_from(decode('${hex}', 'hex'), 'UTF8')`,
  mysql: (hex: string) => `CONVERT(UNHEX('${hex}') USING utf8mb4)`,
  sqlite: (hex: string) => `CAST(X'${hex}' AS TEXT)`,
} as const;

export function upsertText(dialect: keyof typeof HEX, resource: string, text: string): string {
  const values = [resource, text];
  return UPSERT[dialect].replaceAll(/\$\d|\?/g, () =>
    HEX[dialect](Buffer.from(values.shift()!).toString('hex')),
  );
}

/** The age of the fences under test. */
export const AGED = { maxAge: '1d' } as const;
const DAY_MS = 86_400_000;

/** Makes the tables of the accounts and of their fence. */
export async function createPostgresAccounts(pool: PostgresPool): Promise<void> {
  await pool.query(`${ACCOUNT_DDL.postgresql}; ${postgresFence(pool).ddl()}`);
}

export async function createMariadbAccounts(pool: MariadbPool): Promise<void> {
  await pool.query(ACCOUNT_DDL.mysql);
  await pool.query(mysqlFence(pool).ddl());
}

/** Ways to read and write accounts. */
export interface Accounts<Transaction> {
  read(resource: string): Promise<string | null>;
  write(transaction: Transaction, resource: string, text: string): unknown;
  /** Deletes the rows of the fence with smaller tokens. */
  forget?(before: string): unknown;
}

/** Text that a query for one account found. */
export function firstText(rows: unknown): string | null {
  return (rows as readonly { text: string }[])[0]?.text ?? null;
}

/** Parts that are the same for all clients of a database, over its own driver. */
export type Plain = Omit<Required<Accounts<unknown>>, 'write'>;

export const plainPostgres = (pool: Pick<PostgresPool, 'query'>): Plain => ({
  read: async (resource) => firstText((await pool.query(SELECT.postgresql, [resource])).rows),
  forget: (before) => pool.query(FORGET.postgresql, [before]),
});

export const plainMariadb = (pool: MariadbPool): Plain => ({
  read: async (resource) => firstText((await pool.query(SELECT.questionMark, [resource]))[0]),
  forget: (before) => untilDone(() => pool.query(FORGET.questionMark, [before])),
});

/** @param database whose busy timeout is 0: a transaction of this process may have the file */
export const plainSqlite = (database: OpenSqlite): Plain => ({
  read: async (resource) => firstText(database.prepare(SELECT.questionMark).all(resource)),
  // A statement that libsql prepared and could not run stays open, and what follows is not committed.
  forget: (before) =>
    untilDone(async () => database.exec(FORGET.questionMark.replace('?', `'${before}'`))),
});

async function untilDone(attempt: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      return void (await attempt());
    } catch (error) {
      if (!isRetryableSqlError(error)) throw error;
      await sleep(2);
    }
  }
}

export function tokenOf({ token, resource, holder }: FenceTicket): FenceToken {
  return { value: token, keys: [resource], holder };
}

/**
 * The recommended use: claim, read outside, then check again inside the writing transaction.
 * @param isolationLevel of the writing transaction
 */
export function fencedAccounts<Transaction>(
  fence: Fence<Transaction>,
  accounts: Accounts<Transaction>,
  isolationLevel?: IsolationLevel,
): FenceStore {
  const options = isolationLevel && { isolationLevel, attempts: 50 };
  return {
    maxAge: DAY_MS,
    prune: async ({ before }) => {
      await fence.prune();
      await accounts.forget?.(before);
    },
    claim: (ticket) => fence.claim(tokenOf(ticket)),
    read: ({ resource }) => accounts.read(resource),
    write: (ticket, text, pause) =>
      fence.transaction(
        tokenOf(ticket),
        async (transaction) => {
          await pause();
          await accounts.write(transaction, ticket.resource, text);
        },
        options,
      ),
  };
}

/** An account store, and how to close it. */
export interface OpenStore {
  readonly store: FenceStore;
  readonly close: () => unknown;
}

/** Accounts that are written through a driver or ORM. */
export async function openAccounts(
  client: FencedClient | Promise<FencedClient>,
  dialect: SqlDialect,
  plain: Pick<Plain, 'read'> & Partial<Plain>,
  level?: IsolationLevel,
): Promise<OpenStore> {
  const { fence, execute, close } = await client;
  const write = (transaction: unknown, resource: string, text: string) =>
    execute(transaction, upsertText(dialect, resource, text));
  return { store: fencedAccounts(fence, { ...plain, write }, level), close };
}

type Open = () => OpenStore | Promise<OpenStore>;

/** Number of cases that the kit adds where tokens have an age, and are pruned. */
const AGE_CASES = 6;
const CASES = 19;

async function failuresOf(open: Open): Promise<unknown> {
  const { store, close } = await open();
  try {
    const { cases } = await fenceConformance(store, { caseTimeoutMs: 120_000 });
    expect(cases).toHaveLength(store.maxAge === undefined ? CASES : CASES + AGE_CASES);
    return cases.filter(({ failure }) => failure !== undefined);
  } finally {
    await close();
  }
}

/** Number of stores that run at once; by name, servers alternate. */
const LANES = 3;

/** A test for each store: it passes every case of the conformance kit. Some run at once: the kit mostly waits. */
export function itConforms(stores: Readonly<Record<string, Open>>): void {
  const runs = new Map<string, Promise<unknown>>();
  const start = (): void => {
    const lanes: Promise<unknown>[] = [];
    for (const [index, name] of Object.keys(stores).sort().entries()) {
      const run = Promise.resolve(lanes[index % LANES]).then(() => failuresOf(stores[name]!));
      runs.set(name, run);
      lanes[index % LANES] = run.catch(() => undefined);
    }
  };
  it.each(Object.keys(stores))(
    '%s passes the conformance kit',
    async (name) => {
      if (runs.size === 0) start();
      await expect(runs.get(name)).resolves.toEqual([]);
    },
    600_000,
  );
}
