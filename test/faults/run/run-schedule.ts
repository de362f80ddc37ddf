import { setTimeout as sleep } from 'node:timers/promises';
import type { Edit } from '../../simulation/mutants/mutants.ts';
import { historyNow } from '../../history/lock-history.ts';
import { SeededRandom } from '../../load/seeded-random.ts';
import type { CampaignEvent, ProblemEvent } from '../campaign-event.ts';
import { checkRun } from '../checks/check-run.ts';
import { mergeHistory } from '../checks/merge-history.ts';
import { runLimits } from '../checks/run-limits.ts';
import type { RunVerdict } from '../checks/run-verdict.ts';
import { KEY_PREFIX, startCast, TTL_MS, type Cast } from './cast.ts';
import { findLeakedKeys } from './leaked-keys.ts';
import type { Evidence, Schedule } from './schedule.ts';
import { Stage } from './stage.ts';

export interface RunOptions {
  readonly seed: number;
  /** Changes to the code under test: negative controls break it on purpose. */
  readonly edits?: readonly Edit[];
}

/** What one run of a schedule showed. */
export interface RunResult extends RunVerdict {
  /** Why the run proves nothing; undefined when its fault did what it was meant to do. */
  readonly withoutEffect: string | undefined;
  readonly history: readonly CampaignEvent[];
}

/** New servers may not vote for one ttl; then everybody can have had a first lock. */
const WARM_UP_MS = TTL_MS * 1.5;
/** After the script, for what it healed to recover, measured. */
const COOL_DOWN_MS = TTL_MS * 1.2;

/** Plays one schedule with one seed on servers and processes of its own, and judges what happened. */
export async function runSchedule(schedule: Schedule, options: RunOptions): Promise<RunResult> {
  const cast = await startCast(schedule, options);
  try {
    const stage = new Stage(cast, new SeededRandom(options.seed), TTL_MS);
    await sleep(WARM_UP_MS);
    stage.mark({ mark: 'measuring' });
    await schedule.play(stage);
    await sleep(COOL_DOWN_MS);
    stage.mark({ mark: 'measured' });
    const network = await cast.network.counts();
    await finish(cast, schedule);
    const history = mergeHistory(cast.readHistories());
    const { violations, measures } = checkRun(
      history,
      runLimits({ ttlMs: TTL_MS, ...schedule.limits }),
    );
    const evidence: Evidence = { measures, network };
    const withoutEffect = schedule.withoutEffect?.(evidence);
    return { violations, measures, history, withoutEffect };
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
