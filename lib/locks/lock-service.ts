import type { Lock, OwnLocks } from '../core/lock.ts';
import type { LockInspection } from '../core/nodes/inspect.ts';
import type { LockList, RevokedLock } from '../core/nodes/operate.ts';
import type { LockStatus } from '../core/nodes/status.ts';
import { FencedUsageError, quoteKeys, RedlockConfigError } from '../core/errors.ts';
import { CALLED_BY, calledBy, type CalledOptions } from '../core/holding/reentrancy.ts';
import { durationMs } from '../core/options/duration.ts';
import { normalizeKeys } from '../core/options/lock-keys.ts';
import { checkOptions, kindOf } from '../core/options/option-names.ts';
import type { AcquireOptions } from '../core/options/options.ts';
import { resolveAcquire } from '../core/options/resolve-options.ts';
import type { LockHost } from './lock-host.ts';
import { OF_SECTION, type SectionOptions } from './section.ts';
import { attachTo, type SharedSections } from './shared-section.ts';

const LIST_OPTIONS = {
  prefix: (value: unknown, option: string): string => {
    if (typeof value === 'string') return value;
    throw new RedlockConfigError(option, undefined, 'give a text', kindOf(value));
  },
};

type Work<Result> = (lock: Lock) => Promise<Result> | Result;

/** A template of `@Fenced`, or of JavaScript in the wrong quotes. Other numbers in braces are hash tags, as in `seat:{42}`. */
const TEMPLATE = /\{0(?:\.[a-z_$][\w$.]*)?\}|\$\{/i;

/**
 * Rejects where a key is a template, which would be one lock for all values. What `@Fenced` has made of its own is a key, whatever
 * it reads like.
 */
function refusedTemplate(
  keys: string | readonly string[],
  options: CalledOptions | undefined,
): Promise<never> | undefined {
  const template = [keys].flat().find((key) => typeof key === 'string' && TEMPLATE.test(key));
  if (template === undefined || options?.[CALLED_BY] !== undefined) return undefined;
  const message = `${quoteKeys([template])} is a template, and only @Fenced fills in templates: here it would be one lock for all values. Write the value into the key, as in \`report:\${id}\`, in backticks. Nothing was locked.`;
  return Promise.reject(new FencedUsageError(message, [template]));
}

/**
 * Locks for code that is not one method: the same locks, tokens and rules as under `@Fenced`.
 *
 * `keys` is one key or several; several are one lock, all or none, with one token that covers the set. Keys are non-empty
 * strings, taken as they are: a template of `@Fenced` (`'seat:{0}'`) is not filled in here, and throws. Wrong keys are a
 * `FencedUsageError`, wrong options a `RedlockConfigError`.
 *
 * @example
 * ```ts
 * await locks.withLock('report:all', async (lock) => {
 *   lock.ensure(2_000);
 *   await work(lock.signal);
 * });
 * ```
 */
export class LockService {
  private readonly shared: SharedSections = new WeakMap();

  constructor(
    /** @internal */
    readonly host: LockHost,
  ) {}

  /**
   * Runs `work` while the lock is held, and releases it when the returned promise settles.
   *
   * On loss `lock.signal` aborts. When the work finishes all the same, the call resolves with its result where a fence has accepted
   * the token and none has rejected it; else it rejects with `LockLostError`, which carries the result (see `onLost`).
   * An error of the work is never replaced. The `AbortError` of a timer, a stream or a child process of Node.js that got
   * `lock.signal` wraps the loss, and is thrown as the loss. A release that could not be delivered is an event, not an error. Work that
   * returns an Observable, an async iterable or a generator throws: that would go on after the release.
   *
   * @throws LockBusyError when another holder kept it for the whole `wait`
   * @throws QuorumUnavailableError when too few servers answered
   * @throws LockLostError when the lock was lost before the work ended, and no fence has accepted its token
   * @throws RedlockClosedError during shutdown
   * @throws StaleTokenError when `claim: true` finds that a newer holder reached the resource; the work did not run
   * @throws FencedUsageError when the call runs inside work that holds these keys already (unless `nested: 'join'`), and when the
   * work returned what would go on after the release
   * @throws the reason of `options.signal` when it aborts the wait
   */
  withLock<Result>(
    keys: string | readonly string[],
    work: (lock: Lock) => Promise<Result> | Result,
    options?: SectionOptions,
  ): Promise<Result> {
    const trace = this.host.telemetry?.begin(keys, options);
    const traced = trace?.around(work) ?? work;
    const outcome = refusedTemplate(keys, options) ?? this.section(keys, traced, options);
    return trace?.section(outcome) ?? outcome;
  }

  private section<Result>(
    keys: string | readonly string[],
    work: Work<Result>,
    options: SectionOptions | undefined,
  ): Promise<Result> {
    const { redlock, claims } = this.host;
    // Two calls inside of locks that attached to each other would wait for good.
    if (options?.onBusy === 'attach' && redlock.current() === undefined)
      return this.attached(keys, work, options);
    if (options?.claim === true) return claims.run(keys, work, options);
    return redlock.withLock(keys, work, options, OF_SECTION);
  }

  private async attached<Result>(
    keys: string | readonly string[],
    work: Work<Result>,
    options: SectionOptions & CalledOptions,
  ): Promise<Result> {
    const { signal, [CALLED_BY]: caller } = options;
    const names = normalizeKeys(keys);
    resolveAcquire(this.host.redlock.options, options, OF_SECTION);
    const attach = attachTo(this.shared, caller ?? this, names, work, (runs, abandoned) => {
      // The signal of one call must not end the wait of the others.
      const own = { ...options, onBusy: undefined, signal: abandoned };
      return this.section(names, runs, calledBy(caller ?? {}, own));
    });
    return attach(signal);
  }

  /**
   * Acquires the lock, waiting up to `wait`, and leaves the release to the caller: `await using lock = …`.
   *
   * @throws LockBusyError, QuorumUnavailableError, RedlockClosedError, or the reason of `options.signal`; then nothing is held
   * @throws FencedUsageError when the call runs inside work that holds these keys already
   */
  acquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock> {
    const { redlock, telemetry } = this.host;
    const outcome = refusedTemplate(keys, options) ?? redlock.acquire(keys, options);
    return telemetry?.begin(keys, options).lock(outcome) ?? outcome;
  }

  /**
   * Like {@link acquire}, but resolves to `null` when another holder has it. `wait` is 0 unless given: one try. An outage is still
   * an error.
   *
   * @throws QuorumUnavailableError, RedlockClosedError, or the reason of `options.signal`
   * @throws FencedUsageError as {@link acquire} does
   */
  tryAcquire(keys: string | readonly string[], options?: AcquireOptions): Promise<Lock | null> {
    const { redlock, telemetry } = this.host;
    const outcome = refusedTemplate(keys, options) ?? redlock.tryAcquire(keys, options);
    return telemetry?.begin(keys, options).lock(outcome) ?? outcome;
  }

  /**
   * Tells what nodes know of a key now. Waits at most one node timeout, and never rejects for nodes that don't answer: they have
   * a `failure`, and where they could change it, `holder` is `undefined`.
   *
   * @throws FencedUsageError for a key that {@link withLock} rejects
   */
  inspect(key: string): Promise<LockInspection> {
    return this.host.redlock.inspect(key);
  }

  /** The locks that this process holds now, and its calls that wait for one: keys, method, and for how long. Asks no server. */
  held(): OwnLocks {
    return this.host.redlock.held();
  }

  /**
   * The state of the service and of each node as this process knows it now. Asks no server: a node that nobody uses may have failed
   * a while ago.
   */
  status(): LockStatus {
    return this.host.redlock.status();
  }

  /**
   * Takes a lock away: its holder finds out at its next renewal at the latest, after a third of its ttl, and its `LockLostError`
   * (reason `revoked`) says by whom and why. Others get the key when the lock expires, so no two have it at once. Resolves
   * once a quorum of servers knows; where nobody holds the key, nothing is done.
   *
   * @throws QuorumUnavailableError when fewer servers answered, or had another holder by then
   */
  revoke(
    key: string,
    why?: { readonly by?: string; readonly reason?: string },
  ): Promise<RevokedLock> {
    return this.host.redlock.revoke(key, why?.by, why?.reason);
  }

  /**
   * Finds the locks that a quorum of nodes holds now, up to 10,000. For people: it looks through all keys of each server.
   *
   * @throws RedlockConfigError when the user of a node may not `SCAN`, which locks do not need, and for other options
   * @throws QuorumUnavailableError when too few nodes answered
   */
  async list(
    options: { /** Beginning of the keys. */ readonly prefix?: string } = {},
  ): Promise<LockList> {
    const { prefix } = checkOptions('list', LIST_OPTIONS, options);
    return this.host.redlock.list(prefix);
  }

  /**
   * The lock of the innermost section (`withLock`, `@Fenced`) of this async context that still runs, or undefined outside of
   * one. It may have been lost: look at `isHeld`. Work that outlives its section no longer sees the lock.
   */
  current(): Lock | undefined {
    return this.host.redlock.current();
  }

  /**
   * Whether the work of this async context is inside a lock that covers all of `keys` and is still held: then {@link withLock}
   * joins it with `nested: 'join'`, and throws without.
   */
  holds(keys: string | readonly string[]): boolean {
    return this.host.redlock.holds(keys);
  }

  /**
   * Resolves, for health checks, to true as soon as locks can be had as far as known, to false after `timeoutMs`, and to false at
   * once during shutdown.
   *
   * A quorum of servers must give locks: one that is away, silent, answers with errors or waits for its restart guard does not. A
   * server that answered with an error is asked each second whether it gives locks again, so that no call is needed to find out. An
   * error that does not say why counts for ten seconds.
   */
  async ready(timeoutMs: number): Promise<boolean> {
    return this.host.redlock.ready(durationMs('timeoutMs', timeoutMs));
  }
}
