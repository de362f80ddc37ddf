/** Right of one holder to one resource. */
export interface FenceTicket {
  /** Resource that is written to; tokens of different resources are never compared. */
  readonly resource: string;
  /** Decimal, up to 2^63 - 1: larger than a JavaScript number can tell apart. */
  readonly token: string;
  /** Random identity of the grant: two holders may have the same number from a broken source. */
  readonly holder: string;
}

/** The part of its past that a fence may forget, whose tokens have an age. */
export interface FencePast {
  /**
   * Tokens below may go: decimal. They are hardly older than the store accepts, as if its clock had been an hour ahead: a fence that
   * gives its clock less room to go back fails the kit.
   */
  readonly before: string;
}

/**
 * The store under test: one text per resource, guarded by a fence. All hooks may reject with the store's error for a
 * stale ticket; what the database rolls back (serialization failure, deadlock) they retry themselves.
 */
export interface FenceStore {
  /** Brings the ticket to the store before the first read. */
  claim(ticket: FenceTicket): Promise<void>;
  /** The committed text, null when nothing was written; the way the critical section reads it. */
  read(ticket: FenceTicket): Promise<string | null>;
  /**
   * Writes the text, or rejects and writes nothing. Await `pause()` between the check and the write (inside the transaction):
   * that is where wrong stores are caught. A store that checks and writes in one step awaits it right before that step. Without it
   * the kit fails the store.
   */
  write(ticket: FenceTicket, text: string, pause: () => Promise<void>): Promise<void>;
  /**
   * The age in milliseconds from which the store rejects tokens, by its own clock. With it the kit proves that, and all its tokens are
   * times in microseconds; without it most are small numbers. @default none: tokens of every age are accepted
   */
  readonly maxAge?: number;
  /**
   * Forgets the tokens before, but no text. With this hook and a `maxAge` the kit proves that no one needs them.
   * @default none: the fence never forgets
   */
  prune?(past: FencePast): Promise<unknown>;
  /** Whether an error rejects a stale ticket. @default one with code 'STALE_TOKEN', as our StaleTokenError has */
  isStale?(error: unknown): boolean;
}

/** Tells how an attempt ended; other errors than refusals are thrown. */
export async function isRefused(store: FenceStore, attempt: Promise<unknown>): Promise<boolean> {
  try {
    await attempt;
    return false;
  } catch (error) {
    const { code } = Object(error) as { code?: unknown };
    if (store.isStale?.(error) ?? code === 'STALE_TOKEN') return true;
    const what = `the store threw ${String(error)}, which the kit takes for a failure, not for a rejection`;
    const fix = 'when it rejects a stale ticket, say so in the hook isStale(error)';
    throw new Error(`${what}; ${fix}`, { cause: error });
  }
}

/** A ticket with a holder of its own unless given. */
export function ticketFor(
  resource: string,
  token: number | bigint | string,
  holder = `holder-of-${token}`,
): FenceTicket {
  return { resource, token: String(token), holder };
}

/** A pause that doesn't. */
export const noPause = (): Promise<void> => Promise.resolve();

/** @throws Error with the text unless the condition holds */
export function demand(condition: boolean, text: string): void {
  if (!condition) throw new Error(text);
}
