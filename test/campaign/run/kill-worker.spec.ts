import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { HistoryFile, readHistory } from '../../history/history-file.ts';
import type { StalledEvent } from '../../history/lock-history.ts';
import { eventually } from '../../support/eventually.ts';
import { processState } from '../../support/process-state.ts';
import { SeededRandom } from '../../support/seeded-random.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import type { EventOf } from '../checks/run-facts.ts';
import type { Cast } from './cast.ts';
import { Stage } from './stage.ts';
import { WorkerProcess, type WorkerPlan } from './worker-process.ts';

/** Of a worker for which there is nothing to reach. */
const SETTINGS: WorkerPlan['settings'] = {
  urls: ['redis://127.0.0.1:1'],
  keyPrefix: 'kill:',
  ttlMs: 1_000,
  load: {
    callers: 1,
    keys: 1,
    waitsMs: [0],
    holdMs: [0, 1],
    longShare: 0,
    unextendedShare: 0,
    setShare: 0,
    pauseMs: 1,
  },
  resourcePort: 1,
  wallSkewMs: 0,
  notesVotes: false,
  options: {},
};

it('a worker that is killed while it does not run has that written down by the campaign', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kill-worker-'));
  const path = join(folder, 'campaign.jsonl');
  const file = new HistoryFile<CampaignEvent>(path);
  const plan = { index: 0, seed: 1, historyFolder: folder, edits: [], settings: SETTINGS };
  const worker = new WorkerProcess(plan);
  try {
    await eventually(() => expect(statSync(worker.notePath).size).toBeGreaterThan(0));
    worker.freeze();
    await eventually(() => expect(processState(worker.pid)).toBe('T'));
    await sleep(100);
    const cast = { workers: [worker], file } as unknown as Cast;
    await new Stage(cast, new SeededRandom(1), SETTINGS.ttlMs).killWorker(worker, 0);
    const [mark, stall, ...more] = readHistory<CampaignEvent>(path);
    const { at } = mark as EventOf<'mark'>;
    expect(mark).toMatchObject({ mark: 'worker-killed', worker: 'worker-0/0' });
    expect(stall).toMatchObject({ type: 'stalled', process: 'worker-0/0', to: at, killed: true });
    expect(at - (stall as StalledEvent).from).toBeGreaterThan(99);
    expect([more, worker.name]).toEqual([[], 'worker-0/1']);
  } finally {
    await worker.kill();
    file.close();
    rmSync(folder, { recursive: true });
  }
});
