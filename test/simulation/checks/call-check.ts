import { LockBusyError, QuorumUnavailableError, isRedlockError } from '../../../lib/core/errors.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import { slotKey } from '../../../lib/core/options/lock-keys.ts';
import type { AcquireOptions, WithLockOptions } from '../../../lib/core/options/options.ts';
import { describe } from '../world/client-process.ts';
import type { ClientProcess } from '../world/client-process.ts';
import { broke } from '../world/run-context.ts';
import type { RunContext } from '../world/run-context.ts';
import { checkNewest, checkOvertaken, watchCall, type KeyCall } from './replace-check.ts';

/** Codes of errors that say nothing about nodes and waiting. */
const REFUSED_AT_ONCE: readonly string[] = ['REDLOCK_CLOSED', 'FENCED_USAGE'];

/** Timers are late, and an acquire takes several of them. */
const SLACK_MS = 20;

/** Acquire from its call on: what it was promised, judged by what the nodes and its own process really were. */
export class CallCheck {
  readonly #run: RunContext;
  readonly #client: ClientProcess;
  readonly #keys: readonly string[];
  readonly #options: WithLockOptions;
  readonly #nodeTimeoutMs: number;
  readonly #calledAtMs: number;
  readonly #stalledMs: number;
  /** The keys that it needs: all of one of these lists. */
  readonly #ways: readonly (readonly string[])[];
  readonly #wasTaken: readonly boolean[];
  #abortedAtMs = Infinity;
  readonly #watched: KeyCall | undefined;

  constructor(
    run: RunContext,
    client: ClientProcess,
    keys: readonly string[],
    options: WithLockOptions,
  ) {
    const { process } = client;
    this.#run = run;
    this.#client = client;
    this.#keys = keys;
    this.#options = options;
    this.#nodeTimeoutMs = nodeTimeoutMs(Number(options.ttl ?? run.plan.ttlMs));
    this.#calledAtMs = process.nowMs;
    this.#stalledMs = process.stalledMs;
    this.#ways = waysOf(keys, options);
    this.#wasTaken = this.#ways.map((way) => this.#isTaken(way));
    this.#watched = watchCall(run, client.name, options.onBusy === 'replace');
    const { signal } = options;
    signal?.addEventListener('abort', () => (this.#abortedAtMs = process.nowMs), { once: true });
  }

  granted(lock: Lock): void {
    this.#checkBudget();
    this.#checkStarved('granted');
    this.#client.record.granted(lock, this.#calledAtMs);
    if (this.#watched !== undefined) {
      this.#watched.token = lock.token.value;
      checkNewest(this.#run, this.#watched);
    }
    const { process } = this.#client;
    if (process.stalledMs !== this.#stalledMs || process.observe(() => lock.isHeld)) return;
    if (lock.signal.aborted && (lock.signal.reason as { reason?: string }).reason === 'closed')
      return;
    broke(this.#run, 'dead-grant', `${lock.token.holder} had ended when it was handed out`);
  }

  refused(error: unknown): void {
    this.#checkBudget();
    const { signal } = this.#options;
    if (signal?.aborted === true && error === signal.reason) return;
    this.#client.refused(error, this.#keys);
    if (!isRedlockError(error) || REFUSED_AT_ONCE.includes(error.code)) return;
    this.#checkStarved(error.code);
    if (error instanceof LockBusyError && error.isOvertaken)
      return checkOvertaken(this.#run, this.#watched!);
    // A caller of this process that was granted it in this moment may say so a little later.
    if (error.code === 'LOCK_BUSY' && !this.#mayBeBusy)
      this.#run.world.endOfTick(() => this.#mayBeBusy || this.#broke('false-busy', error));
    if (error instanceof QuorumUnavailableError && this.#couldVote && !this.#hadNoTime(error))
      this.#broke('false-outage', error);
  }

  /** Its work has ended, too. */
  ended(): void {
    if (this.#watched !== undefined) this.#watched.endedAtMs = this.#run.world.nowMs;
  }

  /** Keys may be busy: somebody had one, or an earlier set kept it, or this process, which did not run lately, could think so. */
  get #mayBeBusy(): boolean {
    const { record, process, waiting } = this.#client;
    for (const { keys, calledAtMs } of waiting) {
      const isEarlierSet = keys.length > 1 && calledAtMs <= this.#calledAtMs;
      if (isEarlierSet && keys.some((key) => this.#keys.includes(key))) return true;
    }
    if (process.ranSinceMs > this.#calledAtMs - this.#nodeTimeoutMs) return true;
    const wasNamed = (key: string): boolean => record.takenUntilMs(key) >= this.#calledAtMs;
    const taken = this.#ways.filter(
      (way, index) => this.#wasTaken[index]! || this.#isTaken(way) || way.some(wasNamed),
    );
    return taken.length === this.#ways.length || (taken.length > 0 && this.#isHalfOver);
  }

  /** Messages, or callers ahead of it, took its time: it may not have got round to every slot. */
  get #isHalfOver(): boolean {
    const { process } = this.#client;
    const budgetMs = Math.max(Number(this.#options.wait), this.#nodeTimeoutMs);
    return process.nowMs - this.#calledAtMs > process.trueMs(budgetMs) / 2;
  }

  #isTaken(way: readonly string[]): boolean {
    const isTaken = (key: string): boolean =>
      this.#run.servers.some((server) => server.holderOf(`lock:${key}`) !== null);
    return way.some(isTaken);
  }

  /**
   * A quorum of nodes voted all the time, also during the tries whose outages are still reported: those that ended no earlier
   * than two node timeouts ago, and may have had a longer one.
   */
  get #couldVote(): boolean {
    const tryMs = nodeTimeoutMs(this.#run.plan.maxTtlMs);
    return this.#client.hadQuorumSince(this.#calledAtMs - 2 * this.#nodeTimeoutMs - tryMs);
  }

  /** The loop was blocked in the half of its time that belongs to its own try: it says that no node was asked. */
  #hadNoTime({ causes }: QuorumUnavailableError): boolean {
    const blockedMs = this.#client.process.stalledMs - this.#stalledMs;
    const wasTried = causes.some(({ reason }) => reason !== 'not-tried');
    return !wasTried && blockedMs >= this.#nodeTimeoutMs / 2;
  }

  #checkBudget(): void {
    const { process } = this.#client;
    const waitMs = Number(this.#options.wait);
    const allowedMs = process.trueMs(Math.max(waitMs, this.#nodeTimeoutMs));
    const dueMs = Math.min(this.#calledAtMs + allowedMs, this.#abortedAtMs) + SLACK_MS;
    const lateMs = process.nowMs - dueMs - (process.stalledMs - this.#stalledMs);
    if (lateMs <= 0) return;
    const message = `acquire of ${this.#keys.join()} with wait ${waitMs} took ${(process.nowMs - this.#calledAtMs).toFixed(1)} ms, ${lateMs.toFixed(1)} ms too long`;
    broke(this.#run, 'over-budget', message);
  }

  #checkStarved(end: string): void {
    const tookMs = this.#client.process.nowMs - this.#calledAtMs;
    const { grantedWithinMs } = this.#run.plan;
    if (grantedWithinMs === Infinity || (end === 'granted' && tookMs <= grantedWithinMs)) return;
    const message = `${this.#client.name}: ${this.#keys.join()} ${end} after ${tookMs.toFixed(1)} ms`;
    broke(this.#run, 'starved', message);
  }

  #broke(rule: 'false-busy' | 'false-outage', error: Error): void {
    const { name, process } = this.#client;
    const from = this.#calledAtMs.toFixed(3);
    broke(this.#run, rule, `${name}, called at ${from} ms: ${describe(error)}`, process.nowMs);
  }
}

/** Every list of keys is one that a call gets, and that is enough for it: its own, or that of any slot. */
export function waysOf(
  keys: readonly string[],
  { permits }: AcquireOptions,
): readonly (readonly string[])[] {
  if (permits === undefined) return [keys];
  return Array.from({ length: permits }, (_, slot) => [slotKey(keys[0]!, slot)]);
}

/** Node timeout that the core derives from the ttl of a call. */
export function nodeTimeoutMs(ttlMs: number): number {
  return Math.min(Math.max(50, Math.min(ttlMs / 10, 500)), ttlMs / 3);
}
