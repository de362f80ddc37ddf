import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { HistoryFile } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { answerQuestions, programSettings } from '../../test/support/program.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import type { CampaignEvent, ProblemEvent } from '../faults/campaign-event.ts';
import { type Access, ResourceClient } from '../faults/world/resource-client.ts';
import { loadLibrary, type Lock } from './library.ts';
import { TTL_MS, type Harm, type WorkerCommand, type WorkerSettings } from './worker-settings.ts';

// A process with one caller, which takes the lock again and again, and under it adds one to a record: once without a fence, and once
// behind one where its library has a token. It ends when its parent disconnects.

const STEP_MS = 10;
const WORK_MS = [20, 60] as const;
const PAUSE_MS = 20;
const CLOSE_LIMIT_MS = 2_000;

const { name, library, column, urls, resourcePort, historyPath, seed } =
  programSettings<WorkerSettings>();
const file = new HistoryFile<CampaignEvent>(historyPath);
const random = new SeededRandom(seed);
const realNow = Date.now;
let [aheadMs, isResting, grants] = [0, true, 0];
let present = Promise.resolve();
Date.now = () => realNow() + aheadMs;
let harm: Harm | undefined;
const { errors, [column]: settings } = await loadLibrary(library);

type Unsigned<Event> = Event extends unknown ? Omit<Event, 'process'> : never;

function write(event: Unsigned<CampaignEvent>): void {
  file.append({ process: name, ...event } as CampaignEvent);
}

function problem(kind: ProblemEvent['kind'], message: string): void {
  write({ type: 'problem', at: historyNow(), kind, message });
}

/** What the library says, asked at a time that was noted before. Who hears nothing goes on. */
function mayWork(lock: Lock, holder: string): boolean {
  const at = historyNow();
  const isHeld = lock.isHeld() !== false;
  write(isHeld ? { type: 'step', holder, at } : { type: 'lost', holder, at, reason: 'told' });
  return isHeld;
}

/** The harm that is due now, if no holder in another process has taken it. */
function takeHarm(isDue: (due: Harm) => boolean): Harm | undefined {
  if (harm === undefined || !isDue(harm)) return undefined;
  const taken = harm;
  harm = undefined;
  try {
    writeFileSync(taken.claim, name, { flag: 'wx' });
    return taken;
  } catch {
    return undefined;
  }
}

function suffer(when: Harm['when']): void {
  const taken = takeHarm((due) => due.when === when && due.how !== 'work');
  if (taken?.how === 'stop') process.kill(process.pid, 'SIGSTOP');
  else if (taken) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, taken.durationMs);
}

/** Works until its time is over; false when the library has told it before that the lock is lost. */
async function work(lock: Lock, holder: string): Promise<boolean> {
  const { durationMs } = takeHarm(({ how }) => how === 'work') ?? {
    durationMs: random.between(...WORK_MS),
  };
  for (const untilMs = historyNow() + durationMs; historyNow() < untilMs; await sleep(STEP_MS)) {
    if (!mayWork(lock, holder)) return false;
    suffer('at work');
  }
  return mayWork(lock, holder);
}

/** The section of a holder: it reads, works, checks, and writes. */
async function section(lock: Lock, key: string, holder: string): Promise<void> {
  const token = new FencingToken(lock.token ?? 1, [key], holder);
  const views: readonly Access['view'][] = lock.token ? ['unfenced', 'fenced'] : ['unfenced'];
  const each = (operation: Access['operation'], value: (index: number) => number) =>
    Promise.all(
      views.map((view, index) =>
        resource.access({ view, operation, key, value: value(index) }, token),
      ),
    );
  const read = await each('read', () => 0);
  if (!(await work(lock, holder))) return;
  suffer('before write');
  await each('write', (index) => read[index]!.value + 1);
}

async function takeTurns(key: string): Promise<void> {
  for (; !isResting; await sleep(random.between(0, PAUSE_MS))) {
    const startedAt = historyNow();
    try {
      const lock = await locks.acquire(key);
      grants += 1;
      const [holder, at, token] = [`${name}-${grants}`, historyNow(), lock.token ?? 0];
      // Until when it is valid, not every library says.
      const grant = { startedAt, at, validUntil: at, held: true };
      write({ type: 'granted', holder, keys: [key], token, ...grant });
      await section(lock, key, holder);
      write({ type: 'released', holder, at: historyNow() });
      await lock.release();
    } catch (error) {
      const { constructor, message } = error as Error;
      const isOwn = errors.includes(constructor.name);
      if (!isOwn) problem('raw-error', `${constructor.name}: ${message}`);
    }
  }
}

process.on('uncaughtExceptionMonitor', (error) => problem('uncaught-exception', String(error)));
process.once('disconnect', () => {
  void Promise.race([locks.close(), sleep(CLOSE_LIMIT_MS)]).finally(() => process.exit());
});
const locks = await settings!.open(urls, TTL_MS);
const resource = await ResourceClient.connect(resourcePort);
answerQuestions(undefined, async (command: WorkerCommand) => {
  switch (command.type) {
    case 'begin':
      isResting = false;
      present = takeTurns(command.key);
      return;
    case 'rest':
      isResting = true;
      aheadMs = 0;
      return present;
    case 'harm':
      harm = command;
      return;
    case 'set-clock':
      aheadMs = command.aheadMs;
  }
});
