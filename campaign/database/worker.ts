import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { isRedlockError } from '../../lib/core/errors.ts';
import type { Lock } from '../../lib/core/lock.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { isStaleTokenError, postgresFence } from '../../lib/fencing/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { createRedisNode } from '../../lib/redis/client/create-redis-node.ts';
import { HistoryFile } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { answerQuestions, programSettings } from '../../test/support/program.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import type { CampaignEvent } from '../faults/campaign-event.ts';
import { LockRecorder } from '../faults/worker/lock-recorder.ts';
import { MachineEnvironment } from '../faults/worker/machine-environment.ts';
import { readCounter, writeCounter } from './counters.ts';
import { KEYS, TTL_MS, type WorkerCommand, type WorkerSettings } from './worker-settings.ts';

// Process of the campaign: callers that count under locks in the database, until the parent disconnects.

const settings = programSettings<WorkerSettings>();
const { name, index, url, poolSize, listenUrl, redisUrls, load } = settings;
const random = new SeededRandom(settings.seed);
const environment = new MachineEnvironment();
const file = new HistoryFile<CampaignEvent>(settings.historyPath);
const recorder = new LockRecorder(file, environment, { ...settings, urls: [] });
const pool = new pg.Pool({ connectionString: url, max: poolSize });
// A connection that breaks while it is idle, or in the work of a caller, is what the campaign is for.
pool.on('error', () => undefined);
pool.on('connect', (client) => client.on('error', () => undefined));
const fence = postgresFence(pool);
const listen = listenUrl && (() => new pg.Client({ connectionString: listenUrl }));
const nodes = [
  postgresNode(pool, listen ? { listen } : {}),
  ...redisUrls.map((each) => createRedisNode(each)),
];
const redlock = new Redlock(nodes, { ttl: TTL_MS, onEvent: recorder.listen }, environment);

const WAITS_MS = [0, 300, 3_000, 3_000];
const SET_SHARE = 0.1;
const UNEXTENDED_SHARE = 0.05;
const STEP_MS = 50;
const LONGEST_PAUSE_MS = 20;
let isOver = false;
let stopsBeforeWrite = false;

async function compete(): Promise<void> {
  while (!isOver) {
    const first = Math.floor(random.fraction() * KEYS);
    const keys = [first, ...(random.fraction() < SET_SHARE ? [(first + 1) % KEYS] : [])];
    await useLock(keys.map((key) => `counter-${key}`));
    await sleep(random.between(0, LONGEST_PAUSE_MS));
  }
}

async function useLock(keys: readonly string[]): Promise<void> {
  const calledAt = historyNow();
  try {
    const extend = random.fraction() >= UNEXTENDED_SHARE;
    const lock = await redlock.acquire(keys, { wait: random.pick(WAITS_MS), extend });
    recorder.granted(lock, calledAt);
    await count(lock);
    recorder.releasing(lock);
    await lock.release();
  } catch (error) {
    if (!isRedlockError(error)) recorder.problem('raw-error', error);
  }
}

/** Reads, works, asks the lock, and writes one more. A database that is away is no fault of the lock. */
async function count(lock: Lock): Promise<void> {
  const { token } = lock;
  try {
    // Where the database is one of several, nothing has told its fence of this holder.
    if (redisUrls.length > 0) await fence.claim(token);
    const numbers = await Promise.all(
      lock.keys.map(async (key) => ({
        key,
        fenced: await readCounter(pool, 'fenced', key),
        unfenced: await readCounter(pool, 'unfenced', key),
      })),
    );
    for (let left = random.between(...load.holdMs); left > 0; left -= STEP_MS) {
      if (!recorder.step(lock)) return;
      await sleep(Math.min(STEP_MS, left));
    }
    if (!recorder.step(lock)) return;
    if (stopsBeforeWrite) {
      stopsBeforeWrite = false;
      process.kill(process.pid, 'SIGSTOP');
    }
    for (const { key, unfenced } of numbers)
      await writeCounter(pool, { view: 'unfenced', key, value: unfenced + 1 }, token, name);
    await fence.transaction(token, async (transaction) => {
      for (const { key, fenced } of numbers)
        await writeCounter(transaction, { view: 'fenced', key, value: fenced + 1 }, token, name);
    });
  } catch (error) {
    if (isStaleTokenError(error)) noteRefusal(lock, error.key);
  }
}

function noteRefusal({ token: { value: token, holder } }: Lock, key: string): void {
  const write = { view: 'fenced', operation: 'write', key, value: 0, accepted: false } as const;
  recorder.append({ type: 'access', ...write, token, holder, at: historyNow() });
}

async function main(): Promise<void> {
  const at = historyNow();
  file.append({ type: 'mark', process: 'campaign', at, mark: 'worker-started', worker: name });
  process.on('unhandledRejection', (error) => recorder.problem('unhandled-rejection', error));
  process.on('uncaughtExceptionMonitor', (error) => recorder.problem('uncaught-exception', error));
  const disconnected = new Promise<void>((resolve) =>
    process.connected ? process.once('disconnect', resolve) : resolve(),
  );
  redlock.open();
  const callers = Array.from({ length: load.callers }, (_none, caller) => caller);
  let competing = Promise.all(callers.map(compete));
  let held: readonly Lock[] = [];
  answerQuestions(undefined, async ({ type }: WorkerCommand) => {
    if (type === 'stop-between-check-and-write') stopsBeforeWrite = true;
    else if (type === 'hold') {
      isOver = true;
      await competing;
      held = await Promise.all(
        callers.map((caller) =>
          redlock.acquire(`own-${index}-${caller}`, { wait: '30s', extend: false }),
        ),
      );
    } else {
      await Promise.all(held.map((lock) => lock.release()));
      isOver = false;
      competing = Promise.all(callers.map(compete));
    }
  });
  await disconnected;
  isOver = true;
  await competing;
  await redlock.close();
  await pool.end();
}

await main();
