import { FencedUsageError } from '../core/errors.ts';
import { SqlFence } from '../fencing/sql/sql-fence.ts';
import type { LockHost } from '../locks/lock-host.ts';
import { CronRun, type RunPlan } from './cron-run.ts';
import type { CronTimes } from './cron-times.ts';
import { RunLedger } from './run-ledger.ts';

/** Everything that `@FencedCron` on one method means. */
export interface JobDefinition {
  readonly name: string;
  /** `Class.method`. */
  readonly where: string;
  readonly times: CronTimes;
  readonly missed: 'run' | 'all' | 'skip';
  readonly catchUpMs: number;
}

type Call = (run: CronRun) => Promise<unknown>;

/** After this time it is noticed that the clock was set, or that the machine slept. */
const LONGEST_PAUSE_MS = 60_000;
/** Servers that are away are asked again after this time at first, and then less often. */
const RETRY_MS = 1_000;

const ledgers = new WeakMap<LockHost, RunLedger | undefined>();

/** The ledger of the application; undefined where its module has no fence in an SQL database. */
export function ledgerOf(host: LockHost): RunLedger | undefined {
  const { fence, logger } = host;
  if (ledgers.has(host)) return ledgers.get(host);
  const ledger = fence instanceof SqlFence ? new RunLedger('@FencedCron', fence) : undefined;
  ledgers.set(host, ledger);
  if (fence && !ledger)
    logger.warn(
      'The fence of the module is not in an SQL database, so cron jobs have no ledger: runs that are missed are not noticed, and a host whose clock is far behind may repeat one.',
    );
  return ledger;
}

/** A job from the start of the application to its shutdown. It looks which run is due, at each scheduled time and now and then. */
export class ScheduledJob {
  readonly #ledger: RunLedger | undefined;
  readonly #startedMs = performance.now();
  /** The time of the last run of which nothing more will become here. */
  #settledMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  /** How often in a row it could not begin. */
  #failures = 0;

  constructor(
    private readonly host: LockHost,
    private readonly job: JobDefinition,
    private readonly call: Call,
  ) {
    this.#ledger = ledgerOf(host);
    void this.#look();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    let pauseMs = LONGEST_PAUSE_MS;
    try {
      for (const scheduledMs of await this.#due(Date.now())) {
        if (await this.#run(scheduledMs)) this.#settledMs = scheduledMs;
        // Another process runs it. If that one dies, the lock is free after a ttl.
        else pauseMs = this.host.redlock.options.acquire.ttlMs;
        if (this.#settledMs !== scheduledMs) break;
      }
      this.#failures = 0;
    } catch (error) {
      pauseMs = Math.min(RETRY_MS * 2 ** this.#failures, LONGEST_PAUSE_MS / 4);
      if (this.#failures === 0) this.#say('can not begin, and is tried again', error);
      this.#failures += 1;
    }
    if (this.#isStopped) return;
    const now = Date.now();
    const restMs = Math.min(pauseMs, this.job.times.next(now) - now);
    this.#timer = setTimeout(() => void this.#look(), restMs);
  }

  async #due(nowMs: number): Promise<readonly number[]> {
    const { name, times, missed, catchUpMs } = this.job;
    const latestMs = times.latest(nowMs, this.#settledMs);
    if (latestMs === undefined || latestMs === this.#settledMs) return [];
    if (missed === 'skip' && this.#isBeforeStart(latestMs, nowMs)) return [];
    // The clock was set back: the ledger knows what has run of the time that comes again.
    if (latestMs < Number(this.#settledMs)) this.#settledMs = undefined;
    // Later another host may have run it, and its lock may be over.
    if (!this.#ledger && nowMs - latestMs >= this.#holdMs(latestMs) / 2) return [];
    const fromMs = Math.max(this.#settledMs ?? 0, nowMs - catchUpMs);
    if (!this.#ledger || missed !== 'all' || fromMs >= latestMs) return [latestMs];
    if (this.#settledMs !== undefined) return times.between(fromMs, latestMs);
    // A job that is new has missed nothing.
    const firstMs = Number((await this.#ledger.first(name)) ?? latestMs);
    return times.between(Math.min(Math.max(fromMs, firstMs - 1), latestMs - 1), latestMs);
  }

  /** @returns whether nothing more will become of the run here @throws what kept it from beginning */
  async #run(scheduledMs: number): Promise<boolean> {
    const { name, missed } = this.job;
    const run = new CronRun(name, new Date(scheduledMs), this.#planOf(scheduledMs));
    const isOver = (await this.#ledger?.isSettled(run)) || this.#isStopped;
    try {
      if (!isOver) await this.call(run);
    } catch (error) {
      if (run.attempt === 0) throw error;
      this.#say('failed', error);
    }
    return isOver || run.isSettled || !this.#ledger || missed === 'skip';
  }

  /** How long this process has been there is known by the monotonic clock: the other one may have been set since. */
  #isBeforeStart(scheduledMs: number, nowMs: number): boolean {
    return scheduledMs < nowMs - (performance.now() - this.#startedMs);
  }

  #planOf(scheduledMs: number): RunPlan {
    const { where, times, missed, catchUpMs } = this.job;
    const nowMs = Date.now();
    const isBeforeStart = this.#isBeforeStart(scheduledMs, nowMs);
    const oldestMs = nowMs - catchUpMs;
    return {
      host: this.host,
      ledger: this.#ledger,
      where,
      minHold: this.#ledger ? 0 : this.#holdMs(scheduledMs),
      isBeforeStart,
      isTooOld: scheduledMs <= oldestMs,
      isRepeated: missed !== 'skip',
      missed: (attempt, previous) => {
        const isOnTime = attempt === 1 && !isBeforeStart;
        const beforeMs = scheduledMs - 1;
        // Where nothing is known of earlier runs, none of them was missed.
        const fromMs = Math.max(Number(previous ?? beforeMs), Math.min(oldestMs, beforeMs));
        const missedMs = times.between(fromMs, isOnTime ? beforeMs : scheduledMs);
        return missedMs.map((ms) => new Date(ms).toISOString());
      },
    };
  }

  /** Half of the time to the next run, or as long as a lock may be kept: past the timers of other hosts. */
  #holdMs(scheduledMs: number): number {
    const halfMs = Math.floor((this.job.times.next(scheduledMs) - scheduledMs) / 2);
    return Math.min(this.host.redlock.options.maxTtlMs, halfMs);
  }

  #say(what: string, error: unknown): void {
    const detail = error instanceof Error ? error.stack : String(error);
    const { name, where } = this.job;
    if (!this.#isStopped) this.host.logger.error(`${where}: the job '${name}' ${what}. ${detail}`);
  }
}

/** The jobs of each application, by their names, with the class whose instance runs them. */
const applications = new WeakMap<
  LockHost,
  Map<string, readonly [owner: object, where: string, ScheduledJob]>
>();

/** @throws FencedUsageError when another method has the name; then no job goes on */
export function schedule(
  host: LockHost,
  owner: object,
  definition: JobDefinition,
  call: Call,
): void {
  const { name, where } = definition;
  const jobs = applications.get(host) ?? new Map<string, readonly [object, string, ScheduledJob]>();
  applications.set(host, jobs);
  const [otherOwner = owner, other = where] = jobs.get(name) ?? [];
  if (other !== where || otherOwner !== owner) {
    stopJobs(host);
    const both =
      other === where ? `Two classes inherit ${where}, which is` : `${other} and ${where} are both`;
    throw new FencedUsageError(
      `${both} under @FencedCron with the name '${name}', and each would take runs of the other. Give each job a name of its own.`,
    );
  }
  // A class that two modules provide has two instances, and one job.
  if (!jobs.has(name)) jobs.set(name, [owner, where, new ScheduledJob(host, definition, call)]);
}

export function stopJobs(host: LockHost): void {
  for (const [, , job] of applications.get(host)?.values() ?? []) job.stop();
}
