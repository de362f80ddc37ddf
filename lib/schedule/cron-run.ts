import { setTimeout as delay } from 'node:timers/promises';
import { FencedUsageError, isRedlockError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { FencingToken } from '../core/fencing-token.ts';
import type { Lock } from '../core/lock.ts';
import { inModuleContext } from '../core/system-environment.ts';
import type { LockHost } from '../locks/lock-host.ts';
import type { RunLedger, RunRules } from './run-ledger.ts';

/** Where a run belongs. */
export interface RunPlan extends RunRules {
  readonly host: LockHost;
  readonly ledger: RunLedger | undefined;
  /** For how long the lock is kept, in place of a row in the ledger. */
  readonly minHold?: number;
  /** Such a call waits: another process may be looking whether a run is due. */
  readonly isByHand?: boolean;
  /** `Class.method`; absent for a job of node-cron. */
  readonly where?: string;
  /** The times up to this one whose runs were missed. @param attempt 0: this run is skipped */
  missed?(attempt: number, previous: Date | undefined): readonly string[];
}

const PAUSE_MS = 1_000;

/** The time of a run by hand: never on the second, which is for the times of expressions. */
export function timeByHand(nowMs: number): Date {
  return new Date(nowMs % 1_000 === 0 ? nowMs + 1 : nowMs);
}

/**
 * A run of a job: the first argument of a method under `@FencedCron`.
 *
 * @typeParam Transaction what the fence of the module gives to the work of a transaction
 */
export class CronRun<Transaction = any> {
  /** The fencing token, as a parameter under `@FencingToken()` has it. */
  declare readonly token: FencingToken;
  /** Aborts when the lock is lost, as a parameter under `@LockSignal()` does. */
  declare readonly signal: AbortSignal;
  /** How often it was begun: more than 1 where it has died before. */
  readonly attempt: number = 0;
  /** @internal Nothing more will become of it here. */
  isSettled = false;
  readonly #plan: RunPlan;
  #lock: Lock | undefined;
  #startedMs = 0;

  /** @internal */
  constructor(
    /** The name of the job. */
    readonly name: string,
    /** The instant that the expression names, and not when the run began. Called by hand: now. */
    readonly scheduled: Date,
    plan: RunPlan,
  ) {
    this.#plan = plan;
  }

  /**
   * Runs `work` in a transaction of the fence, which ends the run in the ledger as well: both are committed, once, or neither is. It is
   * the last transaction of a run.
   *
   * @throws StaleTokenError when another process has begun the run again; nothing was written
   * @throws FencedUsageError without a ledger, and when the run has ended, as by an earlier call; nothing was written
   */
  async commit<Result>(
    work: (transaction: Transaction) => Promise<Result> | Result,
  ): Promise<Result> {
    const { ledger } = this.#plan;
    if (!ledger)
      throw new FencedUsageError(
        'run.commit needs a fence in an SQL database: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }). Nothing was written.',
      );
    const result = await ledger.end(this, this.token, 'done', work);
    this.isSettled = true;
    return result as Result;
  }

  /** @internal */
  get lockOptions() {
    const { host, ledger, minHold = 0, isByHand } = this.#plan;
    const wait = isByHand ? host.redlock.options.acquire.waitMs : 0;
    return { claim: ledger !== undefined, minHold, wait };
  }

  /** @internal Whether its work may begin, under this lock. */
  async begin(lock: Lock): Promise<boolean> {
    const { ledger, isByHand } = this.#plan;
    this.#lock = lock;
    let begun = await ledger?.begin(this, lock.token, this.#plan);
    // The ledger knows a run by its time, and another call by hand may have come in the same millisecond.
    while (ledger && isByHand && !begun?.attempt) {
      Object.assign(this, { scheduled: timeByHand(Number(this.scheduled) + 1) });
      begun = await ledger.begin(this, lock.token, this.#plan);
    }
    const attempt = ledger ? (begun?.attempt ?? 0) : 1;
    Object.assign(this, { token: lock.token, signal: lock.signal, attempt });
    this.isSettled = !ledger || attempt === 0;
    const times = begun && this.#plan.missed?.(attempt, begun.previous);
    if (times?.length) this.#tell({ type: 'run-missed', times, isRun: attempt > 0 });
    if (attempt === 0) return false;
    this.#startedMs = performance.now();
    this.#tell({ type: 'run-started', attempt, lateMs: Date.now() - Number(this.scheduled) });
    return true;
  }

  /** @internal @throws what kept the ledger from taking the end of work that was done */
  async end(failure?: { readonly error: unknown }): Promise<void> {
    try {
      while (!this.isSettled && (await this.#isEndedLater(failure))) await delay(PAUSE_MS);
    } finally {
      this.#tell({ type: 'run-ended', ranMs: performance.now() - this.#startedMs, ...failure });
    }
  }

  /** What was cut off, or needed what is away now, has died: it gets no end, and is begun again. What was done is not done again. */
  async #isEndedLater(failure: object | undefined): Promise<boolean> {
    if (failure && !this.#lock?.isHeld) return false;
    try {
      const outcome = failure ? 'failed' : 'done';
      await this.#plan.ledger?.end(this, this.token, outcome);
      this.isSettled = true;
    } catch (error) {
      if (!failure && (isRedlockError(error) || !this.#lock?.isHeld)) throw error;
      return !failure;
    }
    return false;
  }

  #tell(what: object): void {
    const { host, where } = this.#plan;
    const { name } = this;
    const scheduled = this.scheduled.toISOString();
    const event = { name, scheduled, ...(where && { where }), ...what } as RunEvent;
    inModuleContext(() => host.onEvent(event));
  }
}
