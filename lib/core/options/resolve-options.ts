import { durationMs, type Duration } from './duration.ts';
import { checkOptionNames } from './option-names.ts';
import { RedlockConfigError } from '../errors.ts';
import type { LockEventListener } from '../events.ts';
import { isWellFormed } from './lock-keys.ts';
import { REDLOCK_DEFAULTS } from './options.ts';
import type { AcquireOptions, RedlockOptions, WithLockOptions } from './options.ts';
import type { TokenSource } from '../fencing-token.ts';
import { driftMs } from '../validity.ts';

/** Shorter locks would end before an ordinary pause of a process. */
export const MINIMUM_TTL_MS = 100;
/** More votes cost more and add no useful fault tolerance over seven; sets of nodes are kept as bits. */
const MAXIMUM_NODES = 31;
const DEFAULT_EXTRA_WAIT_MS = 2_000;
const MAXIMUM_CONCURRENT_TRIES = 100_000;

/** What one acquire uses, all of it checked. */
export interface ResolvedAcquire {
  /** Not below minHoldMs, so that a crash does not cut the hold short. */
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly nodeTimeoutMs: number;
  readonly extend: boolean;
  readonly minHoldMs: number;
}

/** {@link RedlockOptions} with every default filled in and every relation checked. */
export interface ResolvedOptions {
  readonly acquire: ResolvedAcquire;
  readonly maxTtlMs: number;
  readonly driftFactor: number;
  readonly keyPrefix: string;
  /** W; 0 = no guard. */
  readonly restartGuardMs: number;
  readonly quorum: number;
  readonly concurrentTries: number;
  readonly maxConnectionAgeMs: number;
  readonly tokenSource: TokenSource | undefined;
  /** Undefined: two measured round trips. */
  readonly retryBaseDelayMs: number | undefined;
  /** Undefined: the node timeout of the call. */
  readonly retryMaxDelayMs: number | undefined;
  /** As given; derived from the ttl of the call when undefined. */
  readonly nodeTimeoutMs: number | undefined;
  readonly onEvent: LockEventListener | undefined;
}

/**
 * Checks each option, then each relation between them.
 *
 * @throws RedlockConfigError naming option, value and fix
 */
export function resolveOptions(options: RedlockOptions, nodeCount: number): ResolvedOptions {
  if (!Number.isInteger(nodeCount) || nodeCount < 1 || nodeCount > MAXIMUM_NODES) {
    const fix = `give 1 to ${MAXIMUM_NODES} nodes, best an odd number of independent servers`;
    throw new RedlockConfigError('nodes', nodeCount, fix);
  }
  const { retry = {}, maxConnectionAge = REDLOCK_DEFAULTS.maxConnectionAge } = options;
  checkOptionNames('retry', retry, ['baseDelay', 'maxDelay'], 'retry');
  const minHoldMs = durationMs('minHold', options.minHold ?? REDLOCK_DEFAULTS.minHold);
  const ttlMs = durationMs('ttl', options.ttl ?? REDLOCK_DEFAULTS.ttl, MINIMUM_TTL_MS);
  const maxTtlMs = durationMs('maxTtl', options.maxTtl ?? ttlMs, MINIMUM_TTL_MS);
  const guarded = boolean('restartGuard', options.restartGuard, nodeCount > 1);
  const restartGuardMs = guarded ? maxTtlMs : 0;
  const driftFactor = options.driftFactor ?? REDLOCK_DEFAULTS.driftFactor;
  if (typeof driftFactor !== 'number' || !(driftFactor >= 0 && driftFactor <= 0.5)) {
    throw new RedlockConfigError('driftFactor', driftFactor, 'give a share from 0 to 0.5');
  }
  const nodeTimeoutMs = optionalDuration('nodeTimeout', options.nodeTimeout, 1);
  const resolved: ResolvedOptions = {
    acquire: {
      ttlMs: Math.max(ttlMs, minHoldMs),
      waitMs: durationMs('wait', options.wait ?? restartGuardMs + DEFAULT_EXTRA_WAIT_MS),
      nodeTimeoutMs: nodeTimeoutMs ?? derivedNodeTimeoutMs(ttlMs),
      extend: boolean('extend', options.extend, REDLOCK_DEFAULTS.extend),
      minHoldMs,
    },
    maxTtlMs,
    driftFactor,
    keyPrefix: resolveKeyPrefix(options.keyPrefix),
    restartGuardMs,
    quorum: integer('quorum', options.quorum, Math.floor(nodeCount / 2) + 1, nodeCount),
    concurrentTries: integer(
      'concurrentTries',
      options.concurrentTries ?? REDLOCK_DEFAULTS.concurrentTries,
      1,
      MAXIMUM_CONCURRENT_TRIES,
    ),
    maxConnectionAgeMs: durationMs('maxConnectionAge', maxConnectionAge, 1_000),
    tokenSource: tokenSource(options.tokens),
    retryBaseDelayMs: optionalDuration('retry.baseDelay', retry.baseDelay),
    retryMaxDelayMs: optionalDuration('retry.maxDelay', retry.maxDelay),
    nodeTimeoutMs,
    onEvent: listener(options.onEvent),
  };
  checkRelations(resolved.acquire, resolved);
  return Object.freeze(resolved);
}

/** A call, by its name, and what it takes. */
export interface OptionsOfCall {
  readonly call: string;
  readonly names: readonly string[];
  /** Throws for a result that its work must not have. */
  readonly checkResult?: (result: unknown, keys: readonly string[]) => void;
}

export const OF_ACQUIRE: OptionsOfCall = {
  call: 'acquire',
  names: ['ttl', 'wait', 'extend', 'minHold', 'signal'],
};
export const OF_WITH_LOCK: OptionsOfCall = {
  call: 'withLock',
  names: [...OF_ACQUIRE.names, 'onLost', 'release', 'nested'],
};

/** Frozen options of calls, such as those of a decorator, by service: they are resolved once. */
const resolvedCalls = new WeakMap<ResolvedOptions, WeakMap<AcquireOptions, KnownCall>>();

interface KnownCall {
  /** The call that their names were checked for. */
  readonly of: OptionsOfCall;
  readonly acquire: ResolvedAcquire;
}

/**
 * The options of one call; those of the service where the call says nothing.
 * @throws RedlockConfigError
 * @throws the reason of its signal, when that is aborted
 */
export function resolveAcquire(
  resolved: ResolvedOptions,
  options: AcquireOptions | undefined,
  of = OF_WITH_LOCK,
): ResolvedAcquire {
  if (options == null) return resolved.acquire;
  let known = resolvedCalls.get(resolved);
  if (known === undefined) resolvedCalls.set(resolved, (known = new WeakMap()));
  let call = known.get(options);
  if (call?.of !== of) {
    checkOptionNames(of.call, options, of.names);
    call = { of, acquire: call?.acquire ?? resolveCall(resolved, options) };
    if (Object.isFrozen(options)) known.set(options, call);
  }
  options.signal?.throwIfAborted();
  return call.acquire;
}

function resolveCall(resolved: ResolvedOptions, options: WithLockOptions): ResolvedAcquire {
  const base = resolved.acquire;
  const { ttl, wait, extend, minHold, signal, onLost, release, nested } = options;
  if (signal !== undefined && typeof signal?.throwIfAborted !== 'function')
    throw new RedlockConfigError('signal', signal, 'give the signal of an AbortController');
  if (onLost !== undefined) oneOf('onLost', onLost, ['reject', 'ignore']);
  if (release !== undefined) oneOf('release', release, ['sent', 'confirmed']);
  if (nested !== undefined) oneOf('nested', nested, ['join']);
  if (ttl === undefined && wait === undefined && extend === undefined && minHold === undefined)
    return base;
  const ttlMs = ttl === undefined ? base.ttlMs : durationMs('ttl', ttl, MINIMUM_TTL_MS);
  const minHoldMs = minHold === undefined ? base.minHoldMs : durationMs('minHold', minHold);
  const acquire: ResolvedAcquire = {
    ttlMs: Math.max(ttlMs, minHoldMs),
    waitMs: wait === undefined ? base.waitMs : durationMs('wait', wait),
    nodeTimeoutMs:
      ttl === undefined
        ? base.nodeTimeoutMs
        : (resolved.nodeTimeoutMs ?? derivedNodeTimeoutMs(ttlMs)),
    extend: boolean('extend', extend, base.extend),
    minHoldMs,
  };
  checkRelations(acquire, resolved);
  return acquire;
}

/** @throws RedlockConfigError unless `value` is one of `allowed` */
export function oneOf<Value>(option: string, value: unknown, allowed: readonly Value[]): Value {
  if (allowed.includes(value as Value)) return value as Value;
  const choices = allowed.map((each) => JSON.stringify(each)).join(' or ');
  throw new RedlockConfigError(option, value, `use ${choices}`);
}

function derivedNodeTimeoutMs(ttlMs: number): number {
  return Math.floor(Math.min(Math.max(50, Math.min(ttlMs / 10, 500)), ttlMs / 3));
}

function checkRelations(
  acquire: ResolvedAcquire,
  { maxTtlMs, driftFactor }: ResolvedOptions,
): void {
  const { ttlMs, nodeTimeoutMs, minHoldMs } = acquire;
  // minHold first, because it may have raised ttl.
  for (const [option, ms] of Object.entries({ minHold: minHoldMs, ttl: ttlMs })) {
    if (ms <= maxTtlMs) continue;
    const fix = `it must not be above maxTtl (${maxTtlMs} ms); raise maxTtl in every process first`;
    throw new RedlockConfigError(option, `${ms} ms`, fix);
  }
  if (nodeTimeoutMs > ttlMs / 3) {
    const fix = `it must be at most a third of ttl (${ttlMs} ms)`;
    throw new RedlockConfigError('nodeTimeout', `${nodeTimeoutMs} ms`, fix);
  }
  if (driftMs(ttlMs, driftFactor) > ttlMs * 0.6) {
    const fix = `with ttl ${ttlMs} ms it leaves no validity; use a smaller one`;
    throw new RedlockConfigError('driftFactor', driftFactor, fix);
  }
}

function boolean(option: string, value: boolean | undefined, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (typeof value !== 'boolean') throw new RedlockConfigError(option, value, 'give true or false');
  return value;
}

function optionalDuration(option: string, value: Duration | undefined, minMs = 0) {
  return value === undefined ? undefined : durationMs(option, value, minMs);
}

/** Apart, because nodes are made with it before there is a service. @throws RedlockConfigError */
export function resolveKeyPrefix(value: string | undefined): string {
  if (value === undefined) return REDLOCK_DEFAULTS.keyPrefix;
  const isPlain = typeof value === 'string' && value.length <= 200 && !value.includes('#');
  if (!isPlain || !isWellFormed(value)) {
    const fix = 'give at most 200 characters of well-formed Unicode without "#", such as "lock:"';
    throw new RedlockConfigError('keyPrefix', value, fix);
  }
  return value;
}

/** An absent one is the smallest. */
function integer(option: string, value: number | undefined, min: number, max: number): number {
  if (value === undefined) return min;
  if (!Number.isInteger(value) || value < min || value > max) {
    const fix = min === max ? `give ${min}, the only possible value` : undefined;
    throw new RedlockConfigError(option, value, fix ?? `give an integer from ${min} to ${max}`);
  }
  return value;
}

function tokenSource(value: RedlockOptions['tokens']): TokenSource | undefined {
  if (value === undefined || value === 'quorum') return undefined;
  if (typeof value !== 'object' || value === null || typeof value.issue !== 'function') {
    const fix = "give 'quorum' or an object with an issue() method";
    throw new RedlockConfigError('tokens', value, fix);
  }
  return value;
}

function listener(value: LockEventListener | undefined): LockEventListener | undefined {
  if (value !== undefined && typeof value !== 'function') {
    throw new RedlockConfigError('onEvent', value, 'give a function');
  }
  return value;
}
