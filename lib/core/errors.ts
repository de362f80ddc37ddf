/** The kind of the failure, for `switch`. Closed: a new code is a breaking change. */
export type RedlockErrorCode =
  | 'LOCK_BUSY'
  | 'QUORUM_UNAVAILABLE'
  | 'LOCK_LOST'
  | 'STALE_TOKEN'
  | 'ONCE_CONFLICT'
  | 'FENCED_USAGE'
  | 'REDLOCK_CONFIG'
  | 'REDLOCK_CLOSED';

/** The reason why one server gave no lock. */
export type NodeFailureReason =
  | 'held'
  | 'stale'
  | 'quarantined'
  | 'timeout'
  | 'not-awaited'
  | 'unreachable'
  | 'overloaded'
  | 'not-tried'
  | 'lost'
  | 'error';

/** The cause at one server: what it did with the request. */
export interface NodeCause {
  /** The host and the port, never a password; `this process` when no server was asked, or when it did not run. */
  readonly address: string;
  /** The reason for programs. */
  readonly reason: NodeFailureReason;
  /** The text for people. */
  readonly message: string;
  /** The time from sending to the decision, or to giving up. */
  readonly elapsedMs: number;
}

const BRAND = Symbol.for('nestjs-fenced-lock/error');

/**
 * The base of every error of this package. Their names are literals, which minifiers leave alone.
 *
 * @example
 * ```ts
 * if (error instanceof RedlockError) logger.warn(`${error.code}: ${error.message}`);
 * ```
 */
export abstract class RedlockError extends Error {
  /** The kind of the failure, for programs. */
  abstract readonly code: RedlockErrorCode;
  /** The lock keys concerned; empty when there is none. */
  readonly keys: readonly string[];
  /** The called method with `@Fenced`, `Class.method`; else absent. The message begins with it. */
  declare where?: string;
  /** @internal */
  declare readonly [BRAND]: true;

  static {
    // The brand of the prototype, not of the instances: a log would show it.
    Object.defineProperty(this.prototype, BRAND, { value: true });
  }

  constructor(message: string, keys: readonly string[] = [], options?: ErrorOptions) {
    super(message, options);
    this.keys = keys;
  }

  /**
   * The output of `JSON.stringify`: name, code, message, keys, `where`, and what the class adds, such as `causes`. It leaves out the
   * stack and what is yours or could give access: `cause`, the `result` of the work, the `value` of an option, and `currentHolder`.
   */
  toJSON(): Record<string, unknown> {
    const known = this as Record<string, unknown>;
    return Object.fromEntries(IN_JSON.split(' ').map((name) => [name, known[name]]));
  }
}

/** The fields of all classes; what an error does not have is undefined, and so not written. */
const IN_JSON =
  'name code message keys where key token currentToken reason option waitedMs holderRemainingMs isHeldHere isOvertaken process revoked quorum nodeCount causes';

/**
 * Whether `error` is one of this package, also when it comes from another copy of it.
 *
 * @example
 * ```ts
 * if (isRedlockError(error) && error.code === 'LOCK_BUSY') logger.log('try later');
 * ```
 */
export function isRedlockError(error: unknown): error is RedlockError {
  return typeof error === 'object' && error !== null && BRAND in error;
}

/** The lock has another holder, who did not release it within the wait. An ordinary result: try later or skip. */
export class LockBusyError extends RedlockError {
  readonly code = 'LOCK_BUSY';

  constructor(
    keys: readonly string[],
    /** The time that the caller waited. */
    readonly waitedMs: number,
    /** The time until the lock of the present holder expires, as far as known; it may be renewed, or released earlier. */
    readonly holderRemainingMs: number | undefined,
    /** The answer of each server in the try that found the holder; empty when this process holds it. */
    readonly causes: readonly NodeCause[] = [],
    /** Whether this process itself holds one of the keys: another call of it, a lock that it forgot to release, or `minHold`. */
    readonly isHeldHere = false,
    /** The process that holds it, and since when, for people. It is missing where that is not known yet: no call waits for this fact. */
    readonly process?: string,
    /** The number of permits of the key, which are all taken; undefined where it has one holder. */
    permits?: number,
    /** A newer call has the key, or waits for it (`onBusy: 'replace'`): do not repeat this one. */
    readonly isOvertaken?: true,
  ) {
    const holder = isHeldHere
      ? 'this process (by another call, or for lack of a release)'
      : (process ?? 'someone else');
    const leftMs = Math.ceil(holderRemainingMs ?? Number.NaN);
    const expiry = leftMs >= 0 ? `, and expires in ${leftMs} ms unless it is renewed` : '';
    const found =
      permits === undefined
        ? `Lock ${quoteKeys(keys)} is held by ${holder}${expiry}`
        : `None of the ${permits} permits of ${quoteKeys(keys)} could be had in time${leftMs >= 0 ? `; the next one expires in ${leftMs} ms unless it is renewed` : ''}`;
    const waited = `Waited ${Math.round(waitedMs)} ms`;
    super(
      isOvertaken
        ? `Lock ${quoteKeys(keys)} goes to a newer call (onBusy: 'replace'). ${waited}, and nothing ran. Do not repeat this call: it is out of date.`
        : `${found}. ${waited}. Try again later, wait longer (such as wait: '5s'), or skip (tryAcquire, onBusy: 'skip').`,
      keys,
    );
  }
}

/** Too few servers answered: an outage, a restart guard on most of them, or a network too slow for the ttl. */
export class QuorumUnavailableError extends RedlockError {
  readonly code = 'QUORUM_UNAVAILABLE';

  constructor(
    keys: readonly string[],
    /** The time that the caller waited. */
    readonly waitedMs: number,
    /** The number of servers that a lock needs. */
    readonly quorum: number,
    /** The number of servers. */
    readonly nodeCount: number,
    /**
     * The entries, one for each server that gave no lock. The first has the address `this process` where the servers are not at
     * fault: no server was asked, or this process did not run for too long.
     */
    readonly causes: readonly NodeCause[],
    /** The advice that helps, at the end of the message. */
    advice = "Try again, or wait longer ('wait'). If this persists, fix the causes named here.",
    /** The words for what found no quorum. */
    subject = keys.length > 0 ? `for lock ${quoteKeys(keys)}` : 'at the start',
  ) {
    super(
      `No quorum ${subject} after ${Math.round(waitedMs)} ms: ${quorum} of ${nodeCount} servers must answer. ${listOf(causes)}. ${advice}`,
      keys,
    );
  }
}

/** The reason why a held lock ended before its release. */
export type LockLossReason =
  'expired' | 'suspended' | 'overdue' | 'taken' | 'revoked' | 'replaced' | 'closed' | 'short';

/**
 * The lock was lost, or (reason `short`) too little time is left of it. After a loss, work may overlap with a newer holder's:
 * the fence decides.
 */
export class LockLostError extends RedlockError {
  readonly code = 'LOCK_LOST';

  constructor(
    keys: readonly string[],
    /**
     * `expired`: was not renewed in time; `suspended`: the operating system was suspended for longer than the lock was
     * valid; `overdue`: was held for `maxHold`; `taken`: most servers no longer have it; `revoked`: somebody took it
     * away; `replaced`: a newer call took it (`onBusy: 'replace'`); `closed`: shut down; `short`: `ensure` asked for more time
     * than is left (the lock itself is still held).
     */
    readonly reason: LockLossReason,
    /** The token of the lost lock. */
    readonly token: number,
    /** What each server answered to the last renewal; first, under the address `this process`, for how long that did not run. */
    readonly causes: readonly NodeCause[] = [],
    /** The result of the protected work, when it had finished all the same. */
    readonly result?: unknown,
    /** The words on who revoked it, and why. */
    readonly revoked?: string,
    message = lossMessage(keys, reason, token, causes, revoked),
  ) {
    super(message, keys);
  }
}

function lossMessage(
  keys: readonly string[],
  reason: LockLossReason,
  token: number,
  causes: readonly NodeCause[],
  revoked = '',
): string {
  const end = reason === 'short' ? 'is still held, but' : 'was lost:';
  const answers = causes.length > 0 ? ` (${listOf(causes)})` : '';
  return `Lock ${quoteKeys(keys)} (token ${token}) ${end} ${LOSS[reason]}${revoked}${answers}. Stop before the next step. A fence rejects this token once a newer holder has reached it.`;
}

/** An error of its own for each who receives one loss: users add to errors, and its stack leads to where it is thrown. */
export function sameLoss(loss: LockLostError, result?: unknown): LockLostError {
  const { keys, reason, token, causes, revoked, message } = loss;
  return new LockLostError(keys, reason, token, causes, result, revoked, message);
}

const LOSS: Record<LockLossReason, string> = {
  expired: 'its ttl was over, and no quorum had renewed it',
  suspended: 'the operating system was suspended until after it had expired',
  overdue: "'maxHold' was over, so it is no longer renewed",
  taken: 'too few servers still have it',
  revoked: 'it was revoked ',
  replaced: "a newer call replaces this one (onBusy: 'replace')",
  closed: "the application shut down, and 'shutdownTimeout' was over",
  short: 'less time is left than the next step needs',
};

/**
 * The resource has seen a newer token: this holder is stale and its write was rejected. The number may also be that of no holder:
 * the oldest that the `maxAge` of the fence accepts, or one ahead of the clocks.
 */
export class StaleTokenError extends RedlockError {
  readonly code = 'STALE_TOKEN';

  constructor(
    /** The key that the resource has seen the newer token for. */
    readonly key: string,
    /** The rejected token, decimal. */
    readonly token: string,
    /** The newest token the resource has seen, decimal, when it said so. */
    readonly currentToken?: string,
    /** `''` where no holder had it: the oldest token that the `maxAge` of the fence accepts, or a row that was repaired. */
    readonly currentHolder?: string,
    /** The whole days by which `currentToken` is ahead of the clock: new tokens are smaller for as long. */
    aheadDays = 0,
  ) {
    const [seen, advice] = staleness(token, currentToken, currentHolder, aheadDays);
    super(
      `Stale fencing token ${token} for '${key}'${seen}. Nothing was written: undo what this holder did elsewhere, and ${advice}.`,
      [key],
    );
  }
}

/** What the resource has seen, and what helps. */
function staleness(
  token: string,
  current = '',
  holder: string | undefined,
  aheadDays: number,
): [seen: string, advice: string] {
  const seen = current && `: the resource has seen ${current}`;
  if (aheadDays >= 1)
    return [
      `${seen}, which is ${aheadDays} days ahead of the clock here`,
      'set the clocks right, or repair the row (docs/internals/repair.md): until then no new token is larger',
    ];
  if (current === token)
    return [
      `${seen}, the same number, of another holder`,
      'mend the token source, which issued it twice',
    ];
  const none = ' (of no holder: the oldest that the maxAge of the fence admits, or a repaired row)';
  return [
    holder === '' ? seen + none : seen,
    "don't use this token again: a new lock, or a newer run of the job, has a larger one",
  ];
}

/** A call under `@Once` has the key of an earlier call, and another payload. It did not run. */
export class OnceConflictError extends RedlockError {
  readonly code = 'ONCE_CONFLICT';

  constructor(key: string) {
    super(
      `The key ${quoteKeys([key])} has the answer of an earlier call with another payload. Nothing was run. Another operation needs a key of its own; to repeat the earlier one, send what it had.`,
      [key],
    );
  }
}

/** The code is wired or used wrongly; the message says whether anything ran or was written. */
export class FencedUsageError extends RedlockError {
  readonly code = 'FENCED_USAGE';
}

/** An option has a value that can't work. */
export class RedlockConfigError extends RedlockError {
  readonly code = 'REDLOCK_CONFIG';

  /** The value that it was set to. No log or JSON shows it: a pool, for example, has a password. */
  declare readonly value: unknown;

  constructor(
    /** The name of the option, with the path to it: `nodes[1]`, `retry.baseDelay`. */
    readonly option: string,
    value: unknown,
    fix: string,
    /** The text in place of a value that must not be seen, or says too little. */
    shown = describe(value),
  ) {
    super(`Option '${option}' can't be ${shown}: ${fix}.`);
    Object.defineProperty(this, 'value', { value });
  }
}

/** The service is shutting down, or shut: no new locks. */
export class RedlockClosedError extends RedlockError {
  readonly code = 'REDLOCK_CLOSED';

  constructor(keys: readonly string[]) {
    const what = keys.length > 0 ? `Lock ${quoteKeys(keys)} was not acquired` : 'The start ended';
    super(`${what}: the lock service is closed or shutting down. Nothing is held.`, keys);
  }
}

/** The names of the prototypes, not of the instances: a log would show them. */
const NAMES = {
  LockBusyError,
  QuorumUnavailableError,
  LockLostError,
  StaleTokenError,
  OnceConflictError,
  FencedUsageError,
  RedlockConfigError,
  RedlockClosedError,
};
for (const [name, { prototype }] of Object.entries(NAMES)) prototype.name = name;

/** Whether `error` is about the call that has this very array of keys: a user may pass on that of another call. */
export function isAbout(keys: readonly string[], error: unknown): error is RedlockError {
  return error instanceof RedlockError && error.keys === keys;
}

/** The causes as they stand in messages; the full stop is up to the sentence. */
export function listOf(causes: readonly NodeCause[]): string {
  return causes.map((one) => `${one.address}: ${one.message.replace(/\.$/, '')}`).join('; ');
}

/** The keys as they stand in messages: quoted, long ones cut, control characters escaped. */
export function quoteKeys(keys: readonly string[]): string {
  const shown = keys
    .slice(0, 5)
    .map((key) => JSON.stringify(key.length > 100 ? `${key.slice(0, 100)}…` : key));
  return shown.join(', ') + (keys.length > 5 ? ` and ${keys.length - 5} more` : '');
}

function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 100));
  if (typeof value === 'function' || typeof value === 'symbol') return `a ${typeof value}`;
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? 'an array' : 'an object';
  return String(value);
}

/**
 * The error for a rule that holds whatever nodes, clocks and callers do, and was found broken: a defect of this package. What
 * is cheap to find out is checked everywhere, so that a lock which can't be accounted for is not handed out.
 */
export function brokenInvariant(rule: string): Error {
  return new Error(`Defect in nestjs-fenced-lock, please report it: broken rule "${rule}".`);
}
