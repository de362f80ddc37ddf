import { describe, expect, it } from '@jest/globals';
import type { Act } from '../src/stage/act.ts';
import { playActs } from '../src/stage/play-acts.ts';
import { StageLog } from '../src/stage/stage-log.ts';
import type { Stage } from '../src/stage/stage.ts';
import { after, INITIAL_STATE } from '../src/stage/stage-state.ts';
import type { SummaryRow } from '../src/stage/summary.ts';

/** Acts become rows of the summary. The stage is empty: these acts need neither servers nor workers. */

function emptyStage(canFault: boolean): Stage {
  const log = new StageLog();
  const stage = {
    log,
    cluster: { canFault },
    observations: [] as { id: string; isKept: boolean; observed: string }[],
    tell: (text: string) => log.append({ type: 'narrated', text }),
    observe: (id: string, isKept: boolean, observed: string) =>
      stage.observations.push({ id, isKept, observed }),
  };
  return stage as unknown as Stage;
}

function act(title: string, play: Act['play'], needsFaults = false): Act {
  const promises = [{ id: 'promise', text: `the promise of ${title}` }];
  return { title, promises, needsFaults, showsEveryStep: false, play };
}

async function rowsOf(acts: readonly Act[], canFault = true): Promise<readonly SummaryRow[]> {
  const stage = emptyStage(canFault);
  await playActs(stage, acts);
  return stage.log.records.map(({ event }) => event).reduce(after, INITIAL_STATE).summary;
}

const KEPT = act('kept', async (stage) => stage.observe('promise', true, 'seen'));

describe('playActs', () => {
  it('goes on after an act that breaks off, and counts its promises as broken', async () => {
    const fails = act('fails', () => Promise.reject(new Error('worker 1 ended')));
    const rows = await rowsOf([fails, KEPT]);
    expect(rows.map(({ verdict }) => verdict)).toEqual(['BROKEN', 'kept']);
    expect(rows[0]?.observed).toBe('worker 1 ended');
  });

  it('does not count what an earlier act observed for a later one', async () => {
    const silent = act('silent', () => Promise.resolve());
    const rows = await rowsOf([KEPT, silent]);
    expect(rows.map(({ verdict }) => verdict)).toEqual(['kept', 'BROKEN']);
  });

  it('does not play acts that would harm servers which the sample did not start', async () => {
    let wasPlayed = false;
    const harmful = act('harmful', async () => void (wasPlayed = true), true);
    const rows = await rowsOf([harmful, KEPT], false);
    expect(wasPlayed).toBe(false);
    expect(rows.map(({ verdict }) => verdict)).toEqual(['not played', 'kept']);
  });

  it('counts every act as done, played or not', async () => {
    const stage = emptyStage(false);
    await playActs(stage, [act('harmful', () => Promise.resolve(), true), KEPT]);
    const state = stage.log.records.map(({ event }) => event).reduce(after, INITIAL_STATE);
    expect(state.actsDone).toBe(2);
  });
});
