import type { Lock } from '../core/lock.ts';
import type { LockService } from '../locks/lock-service.ts';
import { CronRun } from './cron-run.ts';
import { ledgerOf } from './scheduled-job.ts';

/** The plug of node-cron 4.5 and newer, whose type has the same name there. */
export interface RunCoordinator {
  /** Whether this process runs the job: the name and the scheduled time, as node-cron joins them. */
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
  /** The run has ended. */
  onComplete(key: string): Promise<void>;
}

/**
 * Has one process of the fleet do each run of the `distributed` tasks of node-cron, with the ledger of `@FencedCron` where there is one.
 * Without one, the time of a run is locked for `distributedLease`, but for `maxTtl` at most: past the timers of other hosts. Runs that
 * were missed stay missed, and what node-cron calls failed is `done` in the ledger: it does not say.
 *
 * @example
 * ```ts
 * import { LockService } from 'nestjs-fenced-lock';
 * import { fencedRunCoordinator } from 'nestjs-fenced-lock/schedule';
 * import { setRunCoordinator } from 'node-cron';
 *
 * export function coordinate(locks: LockService) {
 *   setRunCoordinator(fencedRunCoordinator(locks));
 * }
 * ```
 */
export function fencedRunCoordinator(locks: LockService): RunCoordinator {
  const { host } = locks;
  const runs = new Map<string, { run: CronRun; lock: Lock }>();
  return {
    async shouldRun(key, ttlMs) {
      const ledger = ledgerOf(host);
      const minHold = Math.min(ttlMs, host.redlock.options.maxTtlMs);
      // The time is kept and not the name, since the next run may be due sooner than that.
      const time = ledger ? undefined : await locks.tryAcquire(`cron:${key}`, { minHold });
      await time?.release();
      if (time === null) return false;
      // In front of the date in ISO 8601.
      const name = key.slice(0, -25);
      const lock = await locks.tryAcquire(`cron:${name}`);
      if (!lock) return false;
      const run = new CronRun(name, new Date(key.slice(-24)), { host, ledger });
      let mayRun = false;
      try {
        mayRun = await run.begin(lock);
      } finally {
        if (!mayRun) await lock.release();
      }
      if (mayRun) runs.set(key, { run, lock });
      return mayRun;
    },
    async onComplete(key) {
      const { run, lock } = runs.get(key) ?? {};
      runs.delete(key);
      try {
        await run?.end();
      } finally {
        await lock?.release();
      }
    },
  };
}
