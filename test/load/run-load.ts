import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readHistory } from '../history/history-file.ts';
import type { LockHistoryEvent } from '../history/lock-history.ts';
import type { RedisServer } from '../support/redis-servers/redis-server.ts';
import { injectFaults, type FaultCounts } from './faults.ts';
import { SeededRandom } from './seeded-random.ts';
import { WorkerProcess } from './worker-process.ts';
import type { LockKind, WorkerSettings } from './worker-settings.ts';

/** One run. */
export interface LoadPlan {
  readonly script: string;
  readonly servers: readonly RedisServer[];
  readonly locks: LockKind;
  readonly seed: number;
  readonly durationMs: number;
  readonly workers: number;
  readonly keys: number;
  readonly ttlMs: number;
  readonly faults: boolean;
  /** The wall clocks of the workers are spread evenly from this much behind to this much ahead. */
  readonly wallSkewMs: number;
}

/** What a run saw. */
export interface LoadResult {
  readonly history: readonly LockHistoryEvent[];
  readonly faults: FaultCounts;
  /** Workers that ended although nobody killed them, with their last words. */
  readonly failures: readonly string[];
}

/** Lets workers compete for the time of the plan, with or without faults, and collects what they wrote down. */
export async function runLoad(plan: LoadPlan): Promise<LoadResult> {
  const random = new SeededRandom(plan.seed);
  const historyFolder = mkdtempSync(join(tmpdir(), 'lock-load-'));
  const workers: WorkerProcess<WorkerSettings>[] = [];
  const abandon = (): void => workers.forEach((worker) => void worker.kill());
  process.once('exit', abandon);
  try {
    for (let index = 0; index < plan.workers; index += 1) {
      workers.push(
        new WorkerProcess<WorkerSettings>({
          index,
          historyFolder,
          script: plan.script,
          seed: plan.seed,
          settings: {
            urls: plan.servers.map(({ url }) => url),
            keyPrefix: `load:${plan.seed}:`,
            keys: Array.from({ length: plan.keys }, (_, key) => `seat:${key}`),
            ttlMs: plan.ttlMs,
            callers: 4,
            wallSkewMs: plan.wallSkewMs * ((2 * index) / (plan.workers - 1) - 1),
            locks: plan.locks,
          },
        }),
      );
    }
    await Promise.all(workers.map((worker) => worker.started()));
    const faults = await letRun(plan, workers, random);
    await Promise.all(workers.map((worker) => worker.finish()));
    return {
      history: workers.flatMap(({ historyPaths }) => historyPaths).flatMap(readHistory),
      faults,
      failures: workers.flatMap(({ failures }) => failures),
    };
  } finally {
    await Promise.all(workers.map((worker) => worker.kill()));
    process.removeListener('exit', abandon);
    rmSync(historyFolder, { recursive: true });
  }
}

async function letRun(
  plan: LoadPlan,
  workers: readonly WorkerProcess<WorkerSettings>[],
  random: SeededRandom,
): Promise<FaultCounts> {
  if (!plan.faults) {
    await sleep(plan.durationMs);
    return { workerKills: 0, workerFreezes: 0, nodeKills: 0, nodeFreezes: 0 };
  }
  const { servers, ttlMs } = plan;
  return injectFaults(
    { workers, servers, ttlMs, enough: AbortSignal.timeout(plan.durationMs) },
    random,
  );
}
