import type { Fence } from '../../../lib/fencing/index.ts';
import type { FenceStore, FenceTicket } from '../../../lib/testing/fencing.ts';

/** The protected data of the conformance tests: one text per resource. */
export const ACCOUNT_DDL = {
  postgresql: 'CREATE TABLE account (resource text PRIMARY KEY, text text NOT NULL)',
  mysql:
    'CREATE TABLE account (resource VARBINARY(500) PRIMARY KEY, text VARCHAR(200) NOT NULL) ENGINE = InnoDB',
  sqlite: 'CREATE TABLE account (resource TEXT PRIMARY KEY, text TEXT NOT NULL)',
} as const;

/** How a driver or ORM reads and writes an account in its usual way. */
export interface Accounts<Transaction> {
  read(resource: string): Promise<string | null>;
  write(transaction: Transaction, resource: string, text: string): Promise<unknown>;
}

/** The recommended use: claim, read outside, then check again inside the writing transaction. */
export function fencedAccounts<Transaction>(
  fence: Fence<Transaction>,
  accounts: Accounts<Transaction>,
): FenceStore {
  return {
    claim: (ticket) => fence.claim(tokenOf(ticket)),
    read: ({ resource }) => accounts.read(resource),
    write: (ticket, text, pause) =>
      fence.transaction(tokenOf(ticket), async (transaction) => {
        await pause();
        await accounts.write(transaction, ticket.resource, text);
      }),
  };
}

export function tokenOf({ token, resource, holder }: FenceTicket): {
  value: string;
  keys: string[];
  holder: string;
} {
  return { value: token, keys: [resource], holder };
}

export const UPSERT = {
  postgresql:
    'INSERT INTO account (resource, text) VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET text = EXCLUDED.text',
  mysql:
    'INSERT INTO account (resource, text) VALUES (?, ?) ON DUPLICATE KEY UPDATE text = VALUES(text)',
  sqlite:
    'INSERT INTO account (resource, text) VALUES (?, ?) ON CONFLICT (resource) DO UPDATE SET text = excluded.text',
} as const;
