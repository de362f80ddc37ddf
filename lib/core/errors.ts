import { systemEnvironment } from './system-environment.ts';

/** What went wrong, for `switch`. Closed: a new code is a breaking change. */
export type RedlockErrorCode =
  | 'LOCK_BUSY'
  | 'QUORUM_UNAVAILABLE'
  | 'LOCK_LOST'
  | 'STALE_TOKEN'
  | 'FENCED_USAGE'
  | 'REDLOCK_CONFIG'
  | 'REDLOCK_CLOSED';

/** Why one node did not vote for us. */
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

/** What one node did with our request. */
export interface NodeCause {
  /** Host and port, never a password; `this process` when no node was asked, or when it did not run. */
  readonly address: string;
  /** For programs. */
  readonly reason: NodeFailureReason;
  /** For people. */
  readonly message: string;
  /** From sending to the answer, or to giving up. */
  readonly elapsedMs: number;
}

const BRAND = Symbol.for('nestjs-fenced-lock/error');

/**
 * Base of every error of this package. Their names are literals, which minifiers leave alone.
 *
 * @example
 * ```ts
 * if (error instanceof RedlockError) logger.warn(`${error.code}: ${error.message}`);
 * ```
 */
export abstract class RedlockError extends Error {
  /** What went wrong, for programs. */
  abstract readonly code: RedlockErrorCode;
  /** The lock keys concerned; empty when there is none. */
  readonly keys: readonly string[];
  /** The called method with `@Fenced`, `Class.method`; else absent. The message begins with it. */
  declare where?: string;
  /** @internal */
  declare readonly [BRAND]: true;

  static {
    // Not of the instances: a log would show it.
    Object.defineProperty(this.prototype, BRAND, { value: true });
  }

  constructor(message: string, keys: readonly string[] = [], options?: ErrorOptions) {
    super(message, options);
    this.keys = keys;
  }

  /**
   * What `JSON.stringify` writes: name, code, message, keys, `where`, and what the class adds, such as `causes`. It leaves out the
   * stack and what is yours or could give access: `cause`, the `result` of the work, the `value` of an option, and `currentHolder`.
   */
  toJSON(): Record<string, unknown> {
    const known = this as Record<string, unknown>;
    return Object.fromEntries(IN_JSON.split(' ').map((name) => [name, known[name]]));
  }
}

/** Of all classes; what an error does not have is undefined, and so not written. */
const IN_JSON =
  'name code message keys where key token currentToken reason option waitedMs holderRemainingMs isHeldHere quorum nodeCount causes';

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

/** Another holder has the lock and did not release it within the wait. An ordinary result: try later or skip. */
export class LockBusyError extends RedlockError {
  readonly code = 'LOCK_BUSY';

  constructor(
    keys: readonly string[],
    /** How long the caller waited. */
    readonly waitedMs: number,
    /** How long the present holder's lease still runs, as far as known; it may be extended or released earlier. */
    readonly holderRemainingMs: number | undefined,
    /** What each node answered in the try that found the holder; empty when this process holds it. */
    readonly causes: readonly NodeCause[] = [],
    /** Whether this process itself holds one of the keys: another call of it, a lock that it forgot to release, or `minHold`. */
    readonly isHeldHere = false,
  ) {
    const holder = isHeldHere ? 'by another call of this process' : 'by another holder';
    const hint = isHeldHere ? ' If none is running, look for a missing release(), or minHold.' : '';
    const remaining =
      holderRemainingMs === undefined
        ? ''
        : ` The holder's lease runs ${Math.ceil(holderRemainingMs)} ms more unless extended.`;
    super(
      `Lock ${quoteKeys(keys)} is held ${holder} (waited ${Math.round(waitedMs)} ms).${remaining} Try later, wait longer ('wait'), or skip (tryAcquire, onBusy: 'skip').${hint}`,
      keys,
    );
  }
}

/** Too few nodes could vote: an outage, a majority in quarantine after a restart, or a network too slow for the TTL. */
export class QuorumUnavailableError extends RedlockError {
  readonly code = 'QUORUM_UNAVAILABLE';

  constructor(
    keys: readonly string[],
    /** How long the caller waited. */
    readonly waitedMs: number,
    /** How many votes a lock needs. */
    readonly quorum: number,
    /** Of how many nodes. */
    readonly nodeCount: number,
    /**
     * One entry per node that did not vote for us. The first has the address `this process` where the servers are not at
     * fault: no node was asked, or this process did not run for too long.
     */
    readonly causes: readonly NodeCause[],
    /** What helps, at the end of the message. */
    advice = quorumAdvice(quorum, nodeCount, causes),
    /** What was missing, at the beginning of the message. */
    lack = `No quorum ${keys.length > 0 ? `for lock ${quoteKeys(keys)}` : 'at the start'} after ${Math.round(waitedMs)} ms: ${quorum} of ${nodeCount} nodes must vote`,
  ) {
    super(`${lack}. ${listOf(causes)}. ${advice}`, keys);
  }
}

function quorumAdvice(quorum: number, nodeCount: number, causes: readonly NodeCause[]): string {
  if (causes[0]?.address === 'this process')
    return "The servers are not at fault: retry, wait longer ('wait'), or start fewer acquires at once.";
  const taken = causes.filter(({ message }) => message.startsWith('WRONGTYPE ')).length;
  if (nodeCount - taken < quorum)
    return 'Other data have the name of this lock there, so no retry helps: use another key or keyPrefix, or take them away.';
  const faults = causes.filter(({ reason }) => FAULTS.has(reason)).length;
  const isGuarded = causes.some(({ reason }) => reason === 'quarantined');
  return isGuarded && nodeCount - faults >= quorum
    ? "Nothing is broken: these servers vote when their restart guard is over. Retry then, or wait longer ('wait')."
    : 'Check these servers, then retry.';
}

const FAULTS: ReadonlySet<string> = new Set(['unreachable', 'timeout', 'error', 'overloaded']);

/** Why a held lock ended before its release. */
export type LockLossReason = 'expired' | 'suspended' | 'taken' | 'closed' | 'short';

/**
 * The lock was lost, or (reason `short`) has too little validity left. After a loss, work may overlap with a newer holder's:
 * the fence decides.
 */
export class LockLostError extends RedlockError {
  readonly code = 'LOCK_LOST';

  constructor(
    keys: readonly string[],
    /**
     * `expired`: was not extended in time; `suspended`: the operating system was suspended for longer than the lock was
     * valid; `taken`: a majority of nodes no longer knows it; `closed`: shut down; `short`: `ensure` asked for more validity
     * than is left (the lock itself is still held).
     */
    readonly reason: LockLossReason,
    /** Token of the lost lock. */
    readonly token: number,
    /** What each node answered to the last extension. First, with the address `this process`: for how long that did not run. */
    readonly causes: readonly NodeCause[] = [],
    /** What the protected work returned, when it had finished all the same. */
    readonly result?: unknown,
    message = lossMessage(keys, reason, token),
  ) {
    super(message, keys);
  }
}

/** @param isExtended whether it is extended by itself, or was to be extended */
export function lossOf(
  { keys, reason, token, causes }: Pick<LockLostError, 'keys' | 'reason' | 'token' | 'causes'>,
  isExtended: boolean,
): LockLostError {
  const expired = causes.length > 0 ? `${LOSS.expired} (${listOf(causes)})` : LOSS.expired;
  const why = reason !== 'expired' ? LOSS[reason] : isExtended ? expired : NOT_EXTENDED;
  const message = lossMessage(keys, reason, token, why);
  return new LockLostError(keys, reason, token, causes, undefined, message);
}

function lossMessage(
  keys: readonly string[],
  reason: LockLossReason,
  token: number,
  why = LOSS[reason],
): string {
  const lock = `Lock ${quoteKeys(keys)} (token ${token})`;
  if (reason === 'short')
    return `${lock} is still held, but ${why}. Stop before that step, or extend the lock.`;
  return `${lock} was lost: ${why}. Stop the work; a fenced resource rejects further writes with this token once a newer holder has claimed it.`;
}

/** An error of its own for each who receives one loss: users add to errors, and its stack leads to where it is thrown. */
export function sameLoss(loss: LockLostError, result?: unknown): LockLostError {
  const { keys, reason, token, causes, message } = loss;
  return new LockLostError(keys, reason, token, causes, result, message);
}

const NOT_EXTENDED = 'its ttl was over, and it is not extended (extend: false)';

const LOSS: Record<LockLossReason, string> = {
  expired: 'its validity ended before a quorum extended it',
  suspended: 'the operating system was suspended while its validity ended',
  taken: 'too few nodes still hold it to form a quorum',
  closed: "the application shut down, and 'shutdownTimeout' was over, while it was held",
  short: 'less validity is left than the next step needs',
};

/**
 * The resource has seen a newer token: this holder is stale and its write was refused. The number may also be that of no holder:
 * the oldest that the `maxAge` of the fence admits, or one ahead of the clocks.
 */
export class StaleTokenError extends RedlockError {
  readonly code = 'STALE_TOKEN';

  constructor(
    /** The key that the resource has seen the newer token for. */
    readonly key: string,
    /** The refused token, decimal. */
    readonly token: string,
    /** The newest token the resource has seen, decimal, when it said so. */
    readonly currentToken?: string,
    /** `''` where no holder had it: the oldest token that the `maxAge` of the fence admits, or a row that was repaired. */
    readonly currentHolder?: string,
    options?: ErrorOptions,
  ) {
    const seen = currentToken === undefined ? '' : `: the resource has seen ${currentToken}`;
    super(
      `Stale fencing token ${token} for '${key}'${seen}. ${staleAdvice(token, currentToken, currentHolder)} Nothing was written; do not retry with this token.`,
      [key],
      options,
    );
  }
}

function staleAdvice(token: string, currentToken?: string, currentHolder?: string): string {
  const [ownDays, days] = [daysAhead(token), daysAhead(currentToken)];
  // Where our own number is ahead as well, it comes from another issuer, and is no time.
  if (days > 1 && !(ownDays > 1))
    return `That is ${Math.floor(days)} days ahead of the clock here. If that clock is right, every holder until then is refused: while the key is out of use, set its number to one of now: ${repairOf(systemEnvironment.clock.wallMicros())}`;
  if (currentHolder === '')
    return 'That number is of no holder: it is the oldest that the maxAge of the fence admits, or a repaired row, and this token is not newer. Take the lock again for a new one.';
  const other =
    token === currentToken
      ? 'Another holder has the same number, and came first'
      : 'A newer holder exists';
  return `${other}. Undo what this holder did elsewhere (for example refund).`;
}

/** Without the key, which may come from outside: a statement is there to be copied. Nor does the error know the table. */
function repairOf(nowMicros: number): string {
  return `UPDATE redlock_fence SET token = ${nowMicros}, holder = '' WHERE resource = …, or in Redis HSET fence:{…} t ${nowMicros} h '' (or the table and the prefix that you gave the fence).`;
}

/** Of a number that is a time in microseconds. */
function daysAhead(token?: string): number {
  return (Number(token) - systemEnvironment.clock.wallMicros()) / 86_400_000_000;
}

/** Wrong wiring or wrong use in code; the message says whether anything ran or was written. */
export class FencedUsageError extends RedlockError {
  readonly code = 'FENCED_USAGE';
}

/** An option has a value that can't work. */
export class RedlockConfigError extends RedlockError {
  readonly code = 'REDLOCK_CONFIG';

  /** What it was set to. No log or JSON shows it: a pool, for example, has a password. */
  declare readonly value: unknown;

  constructor(
    /** Its name, with the path to it: `nodes[1]`, `retry.baseDelay`. */
    readonly option: string,
    value: unknown,
    fix: string,
    /** Where the value must not be seen, or says too little. */
    shown = describe(value),
  ) {
    super(`Option '${option}' can't be ${shown}: ${fix}.`);
    Object.defineProperty(this, 'value', { value });
  }
}

const CLOSED_CALL =
  'It is not held; another process, or the next start of this one, can serve the call.';
const CLOSED_START =
  'No lock is held. If the application was not meant to stop, look for what closed it while it started.';

/** The service is shutting down, or shut: no new locks. */
export class RedlockClosedError extends RedlockError {
  readonly code = 'REDLOCK_CLOSED';

  constructor(keys: readonly string[]) {
    const [refused, advice] =
      keys.length > 0
        ? [`Lock ${quoteKeys(keys)} was not acquired`, CLOSED_CALL]
        : ['The start ended', CLOSED_START];
    super(`${refused}: the lock service is closed or shutting down. ${advice}`, keys);
  }
}

/** Not of the instances: a log would show them. */
const NAMES = {
  LockBusyError,
  QuorumUnavailableError,
  LockLostError,
  StaleTokenError,
  FencedUsageError,
  RedlockConfigError,
  RedlockClosedError,
};
for (const [name, { prototype }] of Object.entries(NAMES)) prototype.name = name;

/** Whether `error` is about the call that has this very array of keys: a user may pass on that of another call. */
export function isOf(keys: readonly string[], error: unknown): error is RedlockError {
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
