import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../support/redis-servers/redis-server.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { WorkerProcess } from './worker-process.ts';

/** How much happened. */
export interface FaultCounts {
  workerKills: number;
  workerFreezes: number;
  nodeKills: number;
  nodeFreezes: number;
}

/** What the faults act on, and until when. */
export interface FaultTargets {
  readonly workers: readonly Pick<WorkerProcess, 'freeze' | 'resume' | 'killAndRestart'>[];
  readonly servers: readonly RedisServer[];
  readonly ttlMs: number;
  /** Aborts when it is enough; running faults are then healed. */
  readonly enough: AbortSignal;
}

/**
 * Kills and freezes workers and nodes at random, and heals them. Never more nodes than a minority are away at once, a
 * restarted node counting as away until its restart guard lets it vote.
 */
export async function injectFaults(
  targets: FaultTargets,
  random: SeededRandom,
): Promise<FaultCounts> {
  const counts: FaultCounts = { workerKills: 0, workerFreezes: 0, nodeKills: 0, nodeFreezes: 0 };
  const { workers, servers, ttlMs, enough } = targets;
  const freeWorkers = new Set(workers);
  const freeServers = new Set(servers.filter((server) => server.canFault));
  const pause = (from: number, to: number): Promise<unknown> =>
    sleep(random.between(from, to), undefined, { signal: enough }).catch(() => undefined);

  async function lane<Target>(
    free: Set<Target>,
    fault: (target: Target) => Promise<void>,
  ): Promise<void> {
    while (!enough.aborted && free.size > 0) {
      await pause(200, 900);
      if (enough.aborted) return;
      const target = random.pick([...free]);
      free.delete(target);
      await fault(target);
      free.add(target);
    }
  }

  async function freezeWorker(worker: Pick<WorkerProcess, 'freeze' | 'resume'>): Promise<void> {
    worker.freeze();
    counts.workerFreezes += 1;
    // Past the ttl: others get what it held, and it learns that when it wakes.
    await pause(ttlMs * 1.1, ttlMs * 2);
    worker.resume();
  }

  async function killWorker(worker: Pick<WorkerProcess, 'killAndRestart'>): Promise<void> {
    await worker.killAndRestart();
    counts.workerKills += 1;
    await pause(100, 500);
  }

  async function harmNode(server: RedisServer): Promise<void> {
    if (random.fraction() < 0.5) {
      await server.freeze();
      counts.nodeFreezes += 1;
      await pause(100, ttlMs * 2);
      await server.resume();
      return;
    }
    await server.kill();
    counts.nodeKills += 1;
    await pause(50, ttlMs);
    await server.restart();
    await pause(ttlMs * 1.2, ttlMs * 1.4);
  }

  const nodeLanes = Array.from({ length: Math.floor((servers.length - 1) / 2) }, () =>
    lane(freeServers, harmNode),
  );
  await Promise.all([
    lane(freeWorkers, freezeWorker),
    lane(freeWorkers, freezeWorker),
    lane(freeWorkers, killWorker),
    ...nodeLanes,
  ]);
  return counts;
}
