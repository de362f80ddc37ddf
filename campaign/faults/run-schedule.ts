import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Edit } from '../../test/support/program.ts';
import type { RedisServer } from '../../test/support/redis-servers/redis-server.ts';
import { mergeHistory } from './campaign-event.ts';
import { checkRun, type RunVerdict } from './judge/check-run.ts';
import { RUN_LIMITS } from './judge/verdict.ts';
import type { Evidence, Schedule } from './schedule.ts';
import { KEY_PREFIX, Stage, TTL_MS } from './stage.ts';

/** The outcome of one run of a schedule. */
export interface RunResult extends RunVerdict, Evidence {
  /** Reason why the run proves nothing; undefined when its fault did what it was meant to do. */
  readonly withoutEffect: string | undefined;
}

/** New servers may not vote for one ttl; then everybody can have had a first lock. */
const WARM_UP_MS = TTL_MS * 1.5;
/** The time after the script, for what it healed to recover, measured. */
const COOL_DOWN_MS = TTL_MS * 1.2;

/** Plays one schedule with one seed on servers and processes of its own, and judges what happened. */
export async function runSchedule(
  schedule: Schedule,
  seed: number,
  edits: readonly Edit[],
): Promise<RunResult> {
  const stage = await Stage.open(schedule, seed, edits);
  try {
    stage.mark({ mark: 'started' });
    await sleep(WARM_UP_MS);
    stage.mark({ mark: 'measuring' });
    await schedule.play(stage);
    await sleep(COOL_DOWN_MS);
    stage.mark({ mark: 'measured' });
    await finish(stage, schedule);
    const history = mergeHistory(stage.readHistories());
    const { violations, measures } = checkRun(history, { ...RUN_LIMITS, ...schedule.limits });
    const message = schedule.broken?.({ measures, history });
    if (message !== undefined) violations.push({ rule: 'broken-promise', message });
    const withoutEffect = schedule.withoutEffect?.({ measures, history });
    return { violations, measures, history, withoutEffect };
  } finally {
    await stage.end();
  }
}

/** Everybody lets go and ends; what is then left is written down as a problem. */
async function finish(stage: Stage, { settleMs = TTL_MS * 1.3 }: Schedule): Promise<void> {
  await stage.everyWorker((worker) => worker.finish());
  for (const { failures, name } of stage.workers) {
    for (const failure of failures) {
      const kind = failure.includes('did not end') ? 'does-not-exit' : 'ended-by-itself';
      stage.problem(kind, name, failure);
    }
  }
  // When the network ended early, nothing that it wrote down can be trusted to be complete.
  if (stage.network.program.end) throw stage.network.program.end;
  await sleep(settleMs);
  for (const leaked of await findLeakedKeys(stage.servers))
    stage.problem('leaked-key', 'servers', leaked);
}

/**
 * Keys that are left on the servers and should not be: locks, and anything that would never expire. Ask when everybody has
 * let go and a ttl has passed: floors, the gate and what processes said of themselves expire later, and the one marker of a
 * server stays for good.
 */
export async function findLeakedKeys(servers: readonly RedisServer[]): Promise<string[]> {
  const perServer = await Promise.all(servers.map(leakedAt));
  return perServer.flat();
}

async function leakedAt({ url, port }: RedisServer): Promise<string[]> {
  const redis = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 0 });
  try {
    await redis.connect();
    const names = await redis.keys('*');
    const ttls = await Promise.all(names.map((name) => redis.pttl(name)));
    const isLeaked = (name: string, index: number): boolean => {
      if (name === `${KEY_PREFIX}#marker`) return false;
      const mayStay =
        name.startsWith(`${KEY_PREFIX}#floor:`) ||
        name.startsWith(`${KEY_PREFIX}#marker:`) ||
        (name.startsWith(`${KEY_PREFIX}#process:`) && ttls[index]! <= 60_000) ||
        // Queues end ten seconds after the last one stood in them.
        name.endsWith('#queue');
      return !(mayStay && ttls[index]! > 0);
    };
    return names.filter(isLeaked).map((name) => `${name} on the server at port ${port}`);
  } finally {
    redis.disconnect();
  }
}
