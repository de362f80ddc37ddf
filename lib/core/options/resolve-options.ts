import { durationMs, MAX_DURATION_MS } from './duration.ts';
import { RedlockConfigError } from '../errors.ts';
import type { LockEventListener } from '../events.ts';
import { isWellFormed } from './lock-keys.ts';
import {
  callback,
  checkOptions,
  choice,
  duration,
  flag,
  having,
  number,
  valuesOf,
  type OptionKind,
  type OptionTable,
} from './option-names.ts';
import { REDLOCK_DEFAULTS, type AcquireOptions, type RedlockOptions } from './options.ts';
import type { TokenSource } from '../fencing-token.ts';
import { identityOf } from '../process-identity.ts';

/** Shorter locks would end before an ordinary pause of a process. */
const MINIMUM_TTL_MS = 100;
/** More votes cost more and add no useful fault tolerance over seven; sets of nodes are kept as bits. */
const MAXIMUM_NODES = 31;
/** A process that waits stands in line at every slot. */
const MAXIMUM_PERMITS = 100;
const DEFAULT_EXTRA_WAIT_MS = 2_000;
const DEFAULT_MAX_LAG_MS = 10_000;
/** How long a primary writes beyond the lag: it counts whole seconds, looks once a second, and a last word may be late. */
const LAG_SLACK_MS = 3_000;

const keyPrefix: OptionKind<string> = (value, option) => {
  const isPlain = typeof value === 'string' && value.length <= 200 && !value.includes('#');
  if (isPlain && isWellFormed(value)) return value;
  const fix = 'give at most 200 characters of well-formed Unicode without "#", such as "lock:"';
  throw new RedlockConfigError(option, value, fix);
};

const tokenSource = having<TokenSource>(
  'issue',
  "give 'quorum' or an object with an issue() method",
);
/** Returns the lag in ms. */
const failover: OptionKind<number> = (value, option) => {
  const given = value === true ? {} : (value as object);
  return checkOptions(option, { maxLag: duration() }, given, option).maxLag ?? DEFAULT_MAX_LAG_MS;
};
/** An interface: by the type itself, the declarations of lib/locks would lead to the entry for Nest, which exports it, too. */
export interface TokensOption {
  (value: unknown, option: string): TokenSource | undefined;
}
const tokens: TokensOption = (value, option) =>
  value === 'quorum' ? undefined : tokenSource(value, option);
const RETRY_OPTIONS = { baseDelay: duration(), maxDelay: duration() };

export const SERVICE_OPTIONS = {
  ttl: duration(MINIMUM_TTL_MS),
  maxTtl: duration(MINIMUM_TTL_MS),
  wait: duration(),
  nodeTimeout: duration(1),
  driftFactor: number(0, 0.5, false),
  keyPrefix,
  extend: flag,
  minHold: duration(),
  maxHold: duration(1),
  restartGuard: flag,
  failover,
  tokens,
  quorum: number(1, MAXIMUM_NODES),
  retry: (value: unknown, option: string) =>
    checkOptions('retry', RETRY_OPTIONS, value as object, option),
  concurrentTries: number(1, 100_000),
  maxConnectionAge: duration(1_000),
  identity: (value: unknown, option: string): (() => string) | false =>
    value !== false && callback(value, option),
  onEvent: callback,
};

export interface ResolvedAcquire {
  /** The time to live, not below minHoldMs, so that a crash does not cut the hold short. */
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly nodeTimeoutMs: number;
  readonly extend: boolean;
  readonly minHoldMs: number;
  readonly maxHoldMs: number | undefined;
  /** How many may hold the key at once, each in a slot of its own; undefined: one, which is a plain lock. */
  readonly permits: number | undefined;
  /** The newest call wins: it takes the key from its holder. */
  readonly replaces?: true;
}

/** {@link RedlockOptions} with every default filled in and every relation checked. */
export interface ResolvedOptions {
  readonly acquire: ResolvedAcquire;
  readonly maxTtlMs: number;
  readonly driftFactor: number;
  readonly keyPrefix: string;
  readonly restartGuardMs: number;
  /** The lag of replicas that may be promoted; undefined without `failover`. */
  readonly maxLagMs: number | undefined;
  readonly quorum: number;
  readonly concurrentTries: number;
  readonly maxConnectionAgeMs: number;
  readonly tokenSource: TokenSource | undefined;
  /** Undefined: two measured round trips. */
  readonly retryBaseDelayMs: number | undefined;
  /** Undefined: the node timeout of the call. */
  readonly retryMaxDelayMs: number | undefined;
  /** The timeout as given; derived from the ttl of the call when undefined. */
  readonly nodeTimeoutMs: number | undefined;
  /** The text that this process writes of itself; undefined where it writes none. */
  readonly identity: string | undefined;
  readonly onEvent: LockEventListener | undefined;
}

/** Checks each option, then each relation between them. @throws RedlockConfigError naming option, value and fix */
export function resolveOptions(options: RedlockOptions, nodeCount: number): ResolvedOptions {
  if (!Number.isInteger(nodeCount) || nodeCount < 1 || nodeCount > MAXIMUM_NODES) {
    const fix = `give 1 to ${MAXIMUM_NODES} nodes, best an odd number of independent servers`;
    throw new RedlockConfigError('nodes', nodeCount, fix);
  }
  const given = valuesOf(SERVICE_OPTIONS, options);
  const msOf = (name: 'ttl' | 'maxConnectionAge') => durationMs(name, REDLOCK_DEFAULTS[name]);
  const { minHold: minHoldMs = REDLOCK_DEFAULTS.minHold, nodeTimeout: nodeTimeoutMs } = given;
  const { ttl: ttlMs = msOf('ttl'), maxTtl: maxTtlMs = ttlMs } = given;
  const guarded = given.restartGuard ?? nodeCount > 1;
  const { failover: maxLagMs, driftFactor = REDLOCK_DEFAULTS.driftFactor } = given;
  if (maxLagMs !== undefined && given.restartGuard === false) {
    const fix = 'leave it out: failover is a restart guard that lasts longer';
    throw new RedlockConfigError('restartGuard', false, fix);
  }
  // A primary that was cut off from its replicas takes its last write after the lag and its slack; what it then granted is valid
  // for `maxTtl` more. Holders count the drift of clocks off that, but nobody off the time before.
  const failoverMs = maxTtlMs + ((maxLagMs ?? 0) + LAG_SLACK_MS) * (1 + driftFactor);
  const ordinaryMs = guarded ? maxTtlMs : 0;
  const restartGuardMs =
    maxLagMs === undefined ? ordinaryMs : durationMs('failover', Math.ceil(failoverMs));
  const majority = Math.floor(nodeCount / 2) + 1;
  const resolved: ResolvedOptions = {
    acquire: {
      ttlMs: Math.max(ttlMs, minHoldMs),
      waitMs: given.wait ?? Math.min(restartGuardMs + DEFAULT_EXTRA_WAIT_MS, MAX_DURATION_MS),
      nodeTimeoutMs: nodeTimeoutMs ?? derivedNodeTimeoutMs(ttlMs),
      extend: given.extend ?? REDLOCK_DEFAULTS.extend,
      minHoldMs,
      maxHoldMs: given.maxHold,
      permits: undefined,
    },
    maxTtlMs,
    driftFactor,
    keyPrefix: given.keyPrefix ?? REDLOCK_DEFAULTS.keyPrefix,
    restartGuardMs,
    maxLagMs,
    quorum: number(majority, nodeCount)(given.quorum ?? majority, 'quorum'),
    concurrentTries: given.concurrentTries ?? REDLOCK_DEFAULTS.concurrentTries,
    maxConnectionAgeMs: given.maxConnectionAge ?? msOf('maxConnectionAge'),
    tokenSource: given.tokens,
    retryBaseDelayMs: given.retry?.baseDelay,
    retryMaxDelayMs: given.retry?.maxDelay,
    nodeTimeoutMs,
    identity: given.identity === false ? undefined : identityOf(given.identity),
    onEvent: given.onEvent,
  };
  checkRelations(resolved.acquire, resolved);
  return Object.freeze(resolved);
}

const ACQUIRE_OPTIONS = {
  ttl: SERVICE_OPTIONS.ttl,
  wait: SERVICE_OPTIONS.wait,
  extend: SERVICE_OPTIONS.extend,
  minHold: SERVICE_OPTIONS.minHold,
  maxHold: SERVICE_OPTIONS.maxHold,
  permits: number(1, MAXIMUM_PERMITS),
  signal: having<AbortSignal>('throwIfAborted', 'give the signal of an AbortController'),
};

export interface CallRules {
  readonly call: string;
  readonly table: OptionTable & typeof ACQUIRE_OPTIONS;
  /** Throws for a result that its work must not have. */
  readonly checkResult?: (result: unknown, keys: readonly string[]) => void;
}

export const ACQUIRE_RULES: CallRules = { call: 'acquire', table: ACQUIRE_OPTIONS };
export const WITH_LOCK_RULES = {
  call: 'withLock',
  table: {
    ...ACQUIRE_OPTIONS,
    onLost: choice('throw', 'ignore'),
    release: choice('sent', 'confirmed'),
    nested: choice('join'),
    onBusy: choice('throw', 'replace'),
  },
};

/** The results that frozen options, such as those of a decorator, came to last. */
const latest = new WeakMap<
  AcquireOptions,
  { resolved: ResolvedOptions; rules: CallRules; acquire: ResolvedAcquire }
>();

/** The options of one call; those of the service where the call says nothing. @throws the reason of its signal */
export function resolveAcquire(
  resolved: ResolvedOptions,
  options: AcquireOptions | undefined,
  rules: CallRules = WITH_LOCK_RULES,
): ResolvedAcquire {
  if (options == null) return resolved.acquire;
  const known = latest.get(options);
  const isKnown = known?.resolved === resolved && known.rules === rules;
  const acquire = isKnown ? known.acquire : resolveCall(resolved, options, rules);
  if (!isKnown && Object.isFrozen(options)) latest.set(options, { resolved, rules, acquire });
  options.signal?.throwIfAborted();
  return acquire;
}

function resolveCall(
  resolved: ResolvedOptions,
  options: AcquireOptions,
  { call, table }: CallRules,
): ResolvedAcquire {
  const base = resolved.acquire;
  const checked = checkOptions(call, table, options);
  const { ttl, wait, extend, minHold, maxHold, permits } = checked;
  const replaces = 'onBusy' in checked && checked.onBusy === 'replace';
  if ((ttl ?? wait ?? extend ?? minHold ?? maxHold ?? permits) === undefined && !replaces)
    return base;
  const minHoldMs = minHold ?? base.minHoldMs;
  const ttlMs = ttl ?? base.ttlMs;
  // The holder that is replaced may keep the key for as long as that.
  const leastWaitMs = replaces ? Math.max(ttlMs, minHoldMs) + DEFAULT_EXTRA_WAIT_MS : 0;
  const acquire: ResolvedAcquire = {
    ttlMs: Math.max(ttlMs, minHoldMs),
    waitMs: wait ?? Math.max(base.waitMs, leastWaitMs),
    nodeTimeoutMs:
      ttl === undefined
        ? base.nodeTimeoutMs
        : (resolved.nodeTimeoutMs ?? derivedNodeTimeoutMs(ttlMs)),
    extend: extend ?? base.extend,
    minHoldMs,
    maxHoldMs: maxHold ?? base.maxHoldMs,
    permits,
    ...(replaces && { replaces }),
  };
  checkRelations(acquire, resolved);
  return acquire;
}

function derivedNodeTimeoutMs(ttlMs: number): number {
  return Math.floor(Math.min(Math.max(50, Math.min(ttlMs / 10, 500)), ttlMs / 3));
}

function checkRelations(
  {
    ttlMs,
    waitMs,
    nodeTimeoutMs,
    minHoldMs,
    maxHoldMs = minHoldMs,
    permits,
    replaces,
  }: ResolvedAcquire,
  { maxTtlMs }: ResolvedOptions,
): void {
  // minHold first, because it may have raised ttl.
  for (const [option, ms] of Object.entries({ minHold: minHoldMs, ttl: ttlMs })) {
    if (ms <= maxTtlMs) continue;
    const fix = `it must not be above maxTtl (${maxTtlMs} ms); raise maxTtl in every process first`;
    throw new RedlockConfigError(option, `${ms} ms`, fix);
  }
  if (maxHoldMs < minHoldMs) {
    const fix = `it must not be below minHold (${minHoldMs} ms)`;
    throw new RedlockConfigError('maxHold', `${maxHoldMs} ms`, fix);
  }
  if (replaces && waitMs === 0) {
    const fix = "with onBusy: 'replace' give the old holder time to end, such as the ttl and 2 s";
    throw new RedlockConfigError('wait', '0 ms', fix);
  }
  if (replaces && permits !== undefined) {
    const fix = "with onBusy: 'replace' there is one holder to replace: leave one of the two out";
    throw new RedlockConfigError('permits', permits, fix);
  }
  if (nodeTimeoutMs > ttlMs / 3) {
    const fix = `it must be at most a third of ttl (${ttlMs} ms)`;
    throw new RedlockConfigError('nodeTimeout', `${nodeTimeoutMs} ms`, fix);
  }
}
