import type { Duration } from './duration.ts';
import type { LockEventListener } from '../events.ts';
import type { TokenSource } from '../fencing-token.ts';

/** How often a caller that got no lock tries again: with full jitter, and at once when a release is published. */
export interface RetryOptions {
  /**
   * Half of the first random wait; it doubles with every failure.
   * Smaller: quicker when free, more commands under contention. @default two measured round trips to the quorum
   */
  readonly baseDelay?: Duration;
  /** Longest random wait. @default nodeTimeout */
  readonly maxDelay?: Duration;
}

/** The options of the lock service. Durations are milliseconds or strings such as `'30s'`. */
export interface RedlockOptions {
  /**
   * Time to live of a lock on the servers. Short: a crashed holder blocks others briefly, but pauses and slow networks cost
   * the lock sooner, and renewals are more frequent. @default '10s'
   */
  readonly ttl?: Duration;
  /**
   * The longest `ttl` and `minHold` any call may use, in all processes of this cluster: a restarted server gives no locks for
   * this long (the restart guard). @default ttl
   */
  readonly maxTtl?: Duration;
  /**
   * Time for which `acquire` tries; 0 = one try. With less than a node timeout a call may take one node timeout all the same.
   * @default restart guard + 2 s (12 s with the default ttl, 2 s without guard)
   */
  readonly wait?: Duration;
  /**
   * The time that one server (_node_ in options and events) may take to answer before it no longer counts in that round. It is much
   * shorter than the ttl, because a frozen majority costs it with each try. @default ttl / 10, at least 50 ms, at most 500 ms (and at most ttl / 3)
   */
  readonly nodeTimeout?: Duration;
  /** The difference that the rates of two clocks may have, as a share of the ttl; 2 ms are added. @default 0.01 */
  readonly driftFactor?: number;
  /** The prefix of every name on the servers. Applications that must exclude each other use the same. @default 'lock:' */
  readonly keyPrefix?: string;
  /** Renew held locks at a third of the ttl. `false`: a lock ends after one ttl. @default true */
  readonly extend?: boolean;
  /**
   * Keep the lock at least this long, also when the work ends sooner or the process dies: for cron jobs on hosts whose
   * clocks differ. Not above maxTtl. @default 0
   */
  readonly minHold?: Duration;
  /**
   * Hold a lock for at most this long, from its grant, where work may hang: then it is no longer renewed and its signal aborts
   * (`LockLostError` with reason `overdue`); others get it when the work ends, or when it expires, a ttl later at most.
   * Not below minHold. @default none; a lock held for ten ttl is the event `held-long`
   */
  readonly maxHold?: Duration;
  /**
   * A server that restarted (with or without its data) gives no locks for `maxTtl`, so that it can't give away what it forgot.
   * `false` only for servers that lose nothing (`appendfsync always`) or a single server where that risk is accepted.
   * @default true with two or more servers, false with one
   */
  readonly restartGuard?: boolean;
  /**
   * A server may be replaced by one of its replicas (Redis 7.0 or newer), behind one address, by Sentinel or in a cluster: the new
   * primary gives no locks for `maxTtl + maxLag + 3 s`, however many servers there are. So a failover that is a crash gives no held
   * lock to a second holder; nor does one in a partition, where `min-replicas-to-write` is the number of replicas.
   * @default none
   */
  readonly failover?:
    | true
    | {
        /** The lag of a replica that may be promoted: not below `min-replicas-max-lag` of the servers, and the same in all processes. @default '10s', as in Redis */
        readonly maxLag?: Duration;
      };
  /** The issuer of fencing tokens. @default 'quorum' */
  readonly tokens?: 'quorum' | TokenSource;
  /**
   * The number of servers that a lock needs, at least a majority. It is larger only while servers are added or replaced step by step (docs/operations.md,
   * "Changing the set of nodes"). @default floor(nodes / 2) + 1
   */
  readonly quorum?: number;
  /**
   * The number of tries for locks that this process has under way at once; further ones wait for their turn, within their `wait`.
   * Keeps a burst from burying its own answers. Renewals and releases don't count. @default 512
   */
  readonly concurrentTries?: number;
  /**
   * How old a connection gets before it is replaced, give or take a quarter: one server after the other, and without a lost call. Its
   * address may lead to another server by then, while the old one lives. @default '10m'
   */
  readonly maxConnectionAge?: Duration;
  /** The spacing of the tries of callers of this process. */
  readonly retry?: RetryOptions;
  /**
   * The words of this process for people who look for the holder of a lock. Each server keeps them in one key, which expires a minute
   * after the process ended. `false`: nothing is written or asked for. @default host, pid, start, and application with version
   */
  readonly identity?: false | (() => string);
  /** Receives what happens to locks and servers. */
  readonly onEvent?: LockEventListener;
}

/** The options of one call; what is absent comes from {@link RedlockOptions}. */
export interface AcquireOptions {
  /** The time to live of this lock on the servers, at most `maxTtl`. @default that of the module, '10s' */
  readonly ttl?: Duration;
  /**
   * Time to try for; 0 = one try. With less than a node timeout a call may take one node timeout all the same.
   * @default that of the module, restart guard + 2 s
   */
  readonly wait?: Duration;
  /** Renew this lock at a third of its ttl. `false`: it ends after one ttl. @default that of the module, true */
  readonly extend?: boolean;
  /** Keep this lock at least this long, also when the work ends sooner or the process dies. @default that of the module, 0 */
  readonly minHold?: Duration;
  /** Hold this lock for at most this long, also while its work still runs. @default that of the module, none */
  readonly maxHold?: Duration;
  /**
   * Let so many holders have this key at once, each with a slot and a token of its own (`lock.slot`): 1 to 100, for one key. All
   * calls for the key name the same number; one that finds that others don't is the event `permits-differ`. @default none: one holder
   */
  readonly permits?: number;
  /** Ends the wait: `acquire` rejects with the signal's reason and holds nothing. */
  readonly signal?: AbortSignal;
}

/** The options of `LockService.withLock`. */
export interface WithLockOptions extends AcquireOptions {
  /**
   * When the work finished although the lock was lost meanwhile: `'throw'` a `LockLostError` (whose `result` is what the work
   * returned), or `'ignore'` and return the result. An error of the work itself is never replaced. @default by the fence: returns
   * the result when a fence has accepted the token of this lock, by a write or a claim, and none has rejected it; else throws
   */
  readonly onLost?: 'throw' | 'ignore';
  /**
   * When the call resolves: at once, and the release goes out at the end of the tick (`'sent'`); or once a quorum of servers has
   * confirmed it (`'confirmed'`), a round trip later. The next caller in this process finds the key free either way;
   * one in another process that learns of the end by other means may find it held for a round trip after `'sent'`. A release
   * that fails afterwards is the event `release-incomplete`, and is repeated. @default 'sent'
   */
  readonly release?: 'sent' | 'confirmed';
  /**
   * When this async context holds the keys already: run inside that lock, with its token, `ttl`, `minHold` and `maxHold`. Otherwise such a
   * call is a `FencedUsageError`, because it may be other work that a queue shared by callers started in this context.
   */
  readonly nested?: 'join';
  /**
   * When the key, one only, has another holder: `'throw'` a `LockBusyError` after `wait`; or `'replace'` it: the newest call wins. The
   * lock of the holder is lost (`LockLostError` with reason `replaced`), and this call begins when its work has ended, or its lease. A
   * call that waits and is overtaken by a newer one is a `LockBusyError` with `isOvertaken`. A holder is not replaced before its
   * `minHold` is over. With `'replace'` the default of `wait` is 2 s more than `ttl`, at least.
   *
   * `'attach'`: when a call of this process with the same keys and this option, under `@Fenced` of the same method of the same
   * instance, runs or waits for the lock, its outcome is that of this call, too: the same result, or the same error. `signal` then
   * ends the wait for that. A call inside of a section attaches to none. @default 'throw'
   */
  readonly onBusy?: 'throw' | 'replace' | 'attach';
}

/**
 * The defaults that are constants; the others derive from ttl and the number of nodes.
 *
 * @example
 * ```ts
 * RedlockModule.forRoot({ nodes, keyPrefix: `shop:${REDLOCK_DEFAULTS.keyPrefix}` });
 * ```
 */
export const REDLOCK_DEFAULTS = Object.freeze({
  /** {@link RedlockOptions.ttl} */
  ttl: '10s',
  /** {@link RedlockOptions.driftFactor} */
  driftFactor: 0.01,
  /** {@link RedlockOptions.keyPrefix} */
  keyPrefix: 'lock:',
  /** {@link RedlockOptions.extend} */
  extend: true,
  /** {@link RedlockOptions.minHold} */
  minHold: 0,
  /** {@link RedlockOptions.tokens} */
  tokens: 'quorum',
  /** A server answers so many in a few milliseconds; more at once only wait in its queue, and their answers in this process. */
  concurrentTries: 512,
  /** {@link RedlockOptions.maxConnectionAge} */
  maxConnectionAge: '10m',
} as const);

/** R: how long a floor outlives its last use. One constant for all clients of a server. */
export const FLOOR_RETENTION_MS = 600_000;

/** Versions of the protocol that this release speaks. Two releases may share servers where they have one in common. */
export const PROTOCOL_VERSIONS = [1, 1] as const;
