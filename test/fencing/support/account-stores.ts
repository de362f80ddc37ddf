import { expect, it } from '@jest/globals';
import type { Pool as MariadbPool } from 'mysql2/promise';
import type { Pool as PostgresPool } from 'pg';
import {
  mysqlFence,
  postgresFence,
  type Fence,
  type IsolationLevel,
} from '../../../lib/fencing/index.ts';
import { fenceConformance, type FenceStore, type FenceTicket } from '../../../lib/testing/index.ts';

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

/** A row of `account`, as ORMs map it. */
export interface Account {
  resource: string;
  text: string;
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

/** An account store over one driver or ORM, and how to close it. */
export interface OpenStore {
  readonly store: FenceStore & { readonly check?: Fence['check'] };
  readonly close: () => unknown;
}

/** How a driver or ORM reads and writes an account in its usual way. */
export interface Accounts<Transaction> {
  read(resource: string): Promise<string | null>;
  write(transaction: Transaction, resource: string, text: string): Promise<unknown>;
  /** Deletes the rows of the fence with smaller tokens. */
  forget?(before: string): unknown;
}

/** What a query for one account found. */
export function firstText(rows: unknown): string | null {
  return (rows as readonly { text: string }[])[0]?.text ?? null;
}

export function tokenOf({ token, resource, holder }: FenceTicket): {
  value: string;
  keys: string[];
  holder: string;
} {
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
): OpenStore['store'] {
  const options = isolationLevel && { isolationLevel, attempts: 50 };
  return {
    check: () => fence.check(),
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

type Open = () => OpenStore | Promise<OpenStore>;

/** What the kit found, and the check of the fence's table. */
async function examine(open: Open) {
  const { store, close } = await open();
  try {
    const { cases } = await fenceConformance(store);
    const failed = cases.filter(({ failure }) => failure !== undefined);
    const more = store.maxAge === undefined ? cases.length : cases.length - AGE_CASES;
    return { failed, cases: more, table: (await store.check?.()) ?? [] };
  } finally {
    await close();
  }
}
/** That the kit adds where tokens have an age, and are pruned. */
const AGE_CASES = 6;
const RIGHT: Awaited<ReturnType<typeof examine>> = { failed: [], cases: 19, table: [] };

/** A test: the store passes every case of the conformance kit. */
export function itConforms(name: string, open: Open): void {
  it(`${name} passes the conformance kit`, async () => {
    expect(await examine(open)).toEqual(RIGHT);
  }, 120_000);
}

/** So many stores at once are what the connections of one server are enough for. */
const LANES = 3;

/** The same for each of these stores, some of them at once: the kit mostly waits. */
export function itConformsWithEach(stores: Readonly<Record<string, Open>>): void {
  const runs = new Map<string, ReturnType<typeof examine>>();
  const start = (): void => {
    const lanes: Promise<unknown>[] = [];
    for (const [index, [name, open]] of Object.entries(stores).entries()) {
      const run = Promise.resolve(lanes[index % LANES]).then(() => examine(open));
      runs.set(name, run);
      lanes[index % LANES] = run.catch(() => undefined);
    }
  };
  it.each(Object.keys(stores))(
    '%s passes the conformance kit',
    async (name) => {
      if (runs.size === 0) start();
      expect(await runs.get(name)).toEqual(RIGHT);
    },
    120_000,
  );
}
