import { setTimeout as sleep } from 'node:timers/promises';
import { historyNow } from '../../history/lock-history.ts';
import { SeededRandom } from '../../support/seeded-random.ts';
import type { CampaignEvent, ProblemEvent } from '../campaign-event.ts';
import { checkRun } from '../checks/check-run.ts';
import { mergeHistory } from '../checks/run-facts.ts';
import { runLimits } from '../checks/run-limits.ts';
import type { RunVerdict } from '../checks/run-verdict.ts';
import { KEY_PREFIX, startCast, TTL_MS, type Cast, type RunOptions } from './cast.ts';
import { findLeakedKeys } from './leaked-keys.ts';
import type { Schedule } from './schedule.ts';
import { Stage } from './stage.ts';

/** Outcome of one run of a schedule. */
export interface RunResult extends RunVerdict {
  /** Reason why the run proves nothing; undefined when its fault did what it was meant to do. */
  readonly withoutEffect: string | undefined;
  readonly history: readonly CampaignEvent[];
}

/** New servers may not vote for one ttl; then everybody can have had a first lock. */
const WARM_UP_MS = TTL_MS * 1.5;
/** Time after the script, for what it healed to recover, measured. */
const COOL_DOWN_MS = TTL_MS * 1.2;

/** Plays one schedule with one seed on servers and processes of its own, and judges what happened. */
export async function runSchedule(schedule: Schedule, options: RunOptions): Promise<RunResult> {
  const cast = await startCast(schedule, options);
  try {
    const stage = new Stage(cast, new SeededRandom(options.seed), TTL_MS);
    stage.mark({ mark: 'started' });
    await sleep(WARM_UP_MS);
    stage.mark({ mark: 'measuring' });
    await schedule.play(stage);
    await sleep(COOL_DOWN_MS);
    stage.mark({ mark: 'measured' });
    const network = await cast.network.counts();
    await finish(cast, schedule);
    const history = mergeHistory(cast.readHistories());
    const nodes = cast.servers.length;
    const limits = runLimits({ ttlMs: TTL_MS, nodes, ...schedule.limits });
    const { violations, measures } = checkRun(history, limits);
    const evidence = { measures, network, history };
    const message = schedule.broken?.(evidence);
    if (message !== undefined) violations.push({ rule: 'broken-promise', message });
    return { violations, measures, history, withoutEffect: schedule.withoutEffect?.(evidence) };
  } finally {
    await cast.end();
  }
}

/** Everybody lets go and ends; what is then left is written down as a problem. */
async function finish({ workers, resource, servers, file }: Cast, schedule: Schedule) {
  const problem = (kind: ProblemEvent['kind'], process: string, message: string): void =>
    file.append({ type: 'problem', process, at: historyNow(), kind, message });
  await Promise.all(workers.map((worker) => worker.finish()));
  for (const { failures, name } of workers) {
    for (const failure of failures) {
      const kind = failure.includes('did not end') ? 'does-not-exit' : 'ended-by-itself';
      problem(kind, name, failure);
    }
  }
  await resource.stop();
  await sleep(schedule.settleMs ?? TTL_MS * 1.3);
  for (const leaked of await findLeakedKeys(servers, KEY_PREFIX)) {
    problem('leaked-key', 'servers', leaked);
  }
}
