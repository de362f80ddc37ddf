import type { StaleTokenError } from '../core/errors.ts';
import type { Duration } from '../core/options/duration.ts';

/** A token as the fence takes it: a `FencingToken`, or what another service received over HTTP, whose value is a decimal string. */
export interface FenceToken {
  /** A positive integer: a safe integer, a bigint, or its decimal form, up to 2^63 - 1. */
  readonly value: number | bigint | string;
  /** The keys it was granted for, at most 1,000. Empty (a token from outside): the keys must be named in the call. */
  readonly keys: readonly string[];
  /** The identity of the grant, 1 to 255 printable ASCII characters; equal numbers of different holders exclude each other. */
  readonly holder: string;
}

/**
 * The check at the resource that makes fencing tokens count. It remembers, per key, the newest `(token, holder)` that reached
 * it, in a table beside the data, and rejects older ones.
 *
 * Two rules make it safe: the token reaches the resource **before the first read** of the critical section, and every
 * writing transaction checks it again **under a row lock**. `transaction` keeps both.
 *
 * It is also the injection token of the fence given to `RedlockModule.forRoot({ fence })`:
 * `constructor(private readonly fence: Fence<PoolClient>)`.
 *
 * @example
 * ```ts
 * @Fenced('seat:{0}')
 * async book(seatId: string, @FencingToken() token = fencingToken()) {
 *   await this.fence.transaction(token, (client) => client.query('UPDATE seat SET taken = true WHERE id = $1', [seatId]));
 * }
 * ```
 * @typeParam Transaction what the driver or ORM gives to the work of a transaction
 */
export abstract class Fence<Transaction = any> {
  /**
   * Opens a transaction, brings the token to the fence as its first statement, runs `work` and commits.
   *
   * If the database aborts the transaction (serialization failure, deadlock), the whole transaction is retried with the same
   * token, so `work` may run more than once: keep effects outside the database out of it. A stale token rolls back, also when
   * `work` swallowed the error.
   *
   * It ends when the promise of `work` settles. What still runs then (a missing `await`) is outside of the transaction: some
   * clients refuse it, others write it, unfenced. And where `work` brings another token in a nested transaction (a SAVEPOINT) and
   * swallows its error, the stale write outside of the savepoint commits: let the error end the whole work.
   *
   * @throws StaleTokenError when a newer holder reached the resource; nothing was written
   * @throws FencedUsageError when the token is missing, malformed or of another key, or the fence table is missing
   * @throws whatever `work` or the database throws; then the transaction was rolled back
   */
  abstract transaction<Result>(
    token: FenceToken | undefined,
    work: (transaction: Transaction) => Promise<Result> | Result,
    options?: FenceTransactionOptions,
  ): Promise<Result>;

  /**
   * The same check as the first statement of your own transaction, at its top level and not inside a savepoint, before anything
   * is read. On PostgreSQL a stale token aborts the transaction, so a swallowed error can't commit; on MySQL and SQLite let the
   * error end the transaction. Await it; that of `sqliteFence` throws at once what others reject with.
   *
   * @throws StaleTokenError, FencedUsageError, the latter also outside a transaction
   */
  abstract advance(
    transaction: Transaction,
    token: FenceToken | undefined,
    options?: FenceKeys,
  ): Promise<void>;

  /**
   * Brings the token to the fence in a short transaction of its own, for critical sections that read before (or outside)
   * their writing transaction. It doesn't replace the check in the writing transaction.
   *
   * @throws StaleTokenError, FencedUsageError
   */
  abstract claim(token: FenceToken | undefined, options?: FenceKeys): Promise<void>;

  /** The CREATE TABLE of the fence, for a migration. A row that is deleted before its token may go (see `maxAge`) lets old tokens in again. */
  abstract ddl(): string;

  /**
   * Deletes the rows whose tokens are an hour older than `maxAge`. The fence rejects these tokens, so that no old one is accepted
   * again. Everything else may go on meanwhile. Rows with the tokens of a counter stay.
   *
   * @returns the number of rows that it deleted
   * @throws RedlockConfigError when the fence has no `maxAge`
   */
  abstract prune(): Promise<number>;

  /**
   * Tries whether the table can do what the fence needs, in transactions that are rolled back: a token is accepted, an older one
   * rejected, keys that look alike are kept apart, and a rollback forgets it all.
   * `RedlockModule` does it at startup, which throws for an `error`, and logs a `warning`.
   *
   * @returns what is wrong; empty when nothing is
   * @throws what the database throws when it can't be reached
   */
  abstract check(): Promise<readonly FenceFinding[]>;

  /** Calls `listener` for all that happens at this fence from now on, until the returned function is called. */
  abstract observe(listener: FenceEventListener): () => void;
}

/** The keys that a call is about. */
export interface FenceKeys {
  /** Some of the token's keys. @default all keys of the token */
  readonly keys?: readonly string[];
}

/** The standard isolation levels. */
export type IsolationLevel = 'read committed' | 'repeatable read' | 'serializable';

/** The options of {@link Fence.transaction}. */
export interface FenceTransactionOptions extends FenceKeys {
  /** All levels are safe under the fence; the stricter ones are aborted more often. @default the database's own */
  readonly isolationLevel?: IsolationLevel;
  /**
   * How often the transaction may run in all when the database aborts it; then its error is thrown.
   * @default 10
   */
  readonly attempts?: number;
  /**
   * PostgreSQL: how long a statement waits for a row that a paused holder still locks, then it fails with 55P03.
   * It costs a round trip; a default for the role or the database costs none. PGlite has one session only, and refuses it.
   * @default the server's (indefinitely)
   */
  readonly lockTimeout?: Duration;
  /**
   * PostgreSQL: the server ends the session when this transaction idles for longer between statements: a holder that is frozen
   * inside it can't block newer ones indefinitely. PGlite refuses it, too. @default the server's (never)
   */
  readonly idleInTransactionTimeout?: Duration;
}

/** A finding of {@link Fence.check}. */
export interface FenceFinding {
  /** `error`: stale tokens may be accepted, or new ones rejected. `warning`: calls will fail. */
  readonly severity: 'error' | 'warning';
  /** What is wrong, and what to do. */
  readonly message: string;
}

/** Where a stale token was rejected. */
export interface StaleContext {
  /** `transaction` and `claim`: already rolled back. `advance`: your transaction may still be open; it must roll back. */
  readonly operation: 'transaction' | 'advance' | 'claim' | 'write';
  /** The rejected token. */
  readonly token: FenceToken;
}

/** The fields that every event of a fence carries. */
interface AboutToken {
  /** The keys that the call is about. */
  readonly keys: readonly string[];
  /** The token of the call, decimal. */
  readonly token: string;
}

interface AboutUse extends AboutToken {
  /** The operation that was called. */
  readonly operation: StaleContext['operation'];
}

/** An event at a fence, for counting. */
export type FenceEvent =
  /** The token is the newest that the resource has seen. */
  | (AboutUse & { readonly type: 'admitted' })
  /** The resource has seen a newer token. */
  | (AboutUse & { readonly type: 'stale'; readonly error: StaleTokenError })
  /** The database aborted the transaction; it runs again with the same token. */
  | (AboutToken & { readonly type: 'retried'; readonly attempt: number; readonly error: unknown })
  /** `onStale` failed; the caller gets the StaleTokenError all the same. */
  | (AboutToken & { readonly type: 'compensation-failed'; readonly error: unknown });

/** Receives what happens at a fence. What it throws, or its promise rejects with, is dropped. */
export type FenceEventListener = (event: FenceEvent) => void;

/** The options of every fence. */
export interface FenceOptions {
  /**
   * Rejects older tokens, by the clock of the database, with a StaleTokenError. So the fence may forget what it knew of tokens that
   * are an hour older still, provided that this clock does not go back by more than that hour. It must be longer than any lock is
   * held, at least an hour, and the same for all fences over one table. Only for tokens that are times, as those of the quorum
   * are. @default none: tokens of every age are accepted, and nothing may be forgotten
   */
  readonly maxAge?: number | `${number}${'h' | 'd'}`;
  /**
   * Runs once for each rejected call, before it rejects: undo what this holder did elsewhere, for example refund a payment.
   * It is awaited. When it throws, the caller still gets the StaleTokenError, and a `compensation-failed` event (without a listener:
   * a process warning) reports it.
   */
  readonly onStale?: (error: StaleTokenError, context: StaleContext) => void | Promise<void>;
  /** Receives what happens at this fence. */
  readonly onEvent?: FenceEventListener;
}

/** The options of a fence in an SQL database. */
export interface SqlFenceOptions extends FenceOptions {
  /** The name of the table, with its schema when needed. @default 'redlock_fence' */
  readonly table?: string;
}
