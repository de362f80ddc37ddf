import type { Act } from './act.ts';
import type { Stage } from './stage.ts';
import { summarize, type ActReport } from './summary.ts';

/** A bound that only a hang crosses. */
const ACT_LIMIT_MS = 120_000;

/** Plays the acts in turn and puts what was promised and observed into the log. An act that fails does not stop the next. */
export async function playActs(stage: Stage, acts: readonly Act[]): Promise<void> {
  const reports: ActReport[] = [];
  for (const [index, act] of acts.entries()) reports.push(await playAct(stage, act, index));
  stage.log.append({ type: 'summary', rows: summarize(reports) });
}

async function playAct(stage: Stage, act: Act, index: number): Promise<ActReport> {
  const { title, promises, showsEveryStep = false } = act;
  if (act.needsFaults && !stage.cluster.canFault) {
    const skipped = 'the servers of REDIS_NODES are left alone';
    stage.log.append({ type: 'act-skipped', index, title, reason: skipped });
    return { title, promises, observations: [], skipped };
  }
  stage.log.append({ type: 'act-started', index, title, showsEveryStep });
  stage.observations = [];
  let failure: string | undefined;
  try {
    await withLimit(act.play(stage));
  } catch (error) {
    failure = error instanceof Error ? error.message : String(error);
    stage.tell(`the act broke off: ${failure}`);
  }
  stage.log.append({ type: 'act-ended', index });
  return { title, promises, observations: stage.observations, failure };
}

async function withLimit(play: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`it did not end within ${ACT_LIMIT_MS / 1000} s`)),
      ACT_LIMIT_MS,
    );
  });
  try {
    await Promise.race([play, limit]);
  } finally {
    clearTimeout(timer);
  }
}
