import { setTimeout as sleep } from 'node:timers/promises';
import { isRedlockError } from '../../lib/core/errors.ts';
import type { Lock } from '../../lib/core/lock.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { HistoryFile } from '../history/history-file.ts';
import { LocksWithoutServers, wallClockTokens, type LockSource } from './broken-locks.ts';
import { LockRecorder } from './lock-recorder.ts';
import { MachineEnvironment } from './machine-environment.ts';
import { SeededRandom } from './seeded-random.ts';
import type { WorkerSettings } from './worker-settings.ts';

// One process of the load: callers that compete for a few keys until the parent disconnects.

const settings = JSON.parse(process.argv[2]!) as WorkerSettings;
const environment = new MachineEnvironment(settings.wallSkewMs);
const recorder = new LockRecorder(
  new HistoryFile(settings.historyPath),
  settings.name,
  environment,
);
const locks = createLocks();
let stopping = false;
/** What each caller waits for, to be named should the worker not end. */
const waitingFor = new Map<number, string>();
const END_LIMIT_MS = 15_000;
/** How long a holder waits to be told of a loss it has noticed; much longer than the checker tolerates. */
const PATIENCE_MS = 500;

function createLocks(): LockSource {
  const { urls, keyPrefix, ttlMs } = settings;
  if (settings.locks === 'without-servers') return new LocksWithoutServers(environment, ttlMs);
  const tokens = settings.locks === 'wall-clock-tokens' ? wallClockTokens(environment) : 'quorum';
  const redlock = new Redlock(
    urls.map((url) => new RedisLockNode(url)),
    { ttl: ttlMs, keyPrefix, tokens, onEvent: recorder.listen },
    environment,
  );
  redlock.open();
  return redlock;
}

/** Uses one lock in one of the ways in which locks are used. */
async function useOnce(random: SeededRandom, doing: (what: string) => void): Promise<void> {
  const { ttlMs } = settings;
  const keys =
    random.fraction() < 0.2
      ? [random.pick(settings.keys), random.pick(settings.keys)]
      : [random.pick(settings.keys)];
  const wait = random.pick([0, 100, ttlMs]);
  const calledAt = environment.now();
  const way = random.fraction();
  doing(`a lock on ${keys.join()} with wait ${wait}, asked for at ${calledAt}`);
  try {
    if (way < 0.15) {
      await locks.withLock(keys, (lock) => workInside(lock, calledAt, random), { wait });
      return;
    }
    // Some locks are held longer than their ttl, with and without extension.
    const abandoned = way > 0.97;
    const long = way > 0.95;
    const lock = await locks.acquire(keys, { wait, extend: !abandoned });
    recorder.granted(lock, calledAt);
    doing(`work on ${lock.keys.join()}`);
    await work(lock, long ? ttlMs * random.between(1.1, 1.6) : random.between(0, 40));
    recorder.releasing(lock);
    doing(`the release of ${lock.keys.join()}`);
    await lock.release();
  } catch (error) {
    // Whatever is not one of our typed errors is a bug: the process ends with it.
    if (!isRedlockError(error)) throw error;
    recorder.refused(keys, error.code);
  }
}

async function workInside(lock: Lock, calledAt: number, random: SeededRandom): Promise<void> {
  recorder.granted(lock, calledAt);
  await work(lock, random.between(0, 20));
  if (settings.locks !== 'without-servers' && recorder.step(lock)) {
    await locks.withLock(lock.keys, async (inner) => {
      if (!recorder.reentered(lock, inner)) return;
      await work(inner, 5);
      recorder.left(lock);
    });
  }
  recorder.releasing(lock);
}

/** Steps, each only if the lock says that it is held. When it says no, the holder waits to be told of the loss. */
async function work(lock: Lock, durationMs: number): Promise<void> {
  const until = environment.now() + durationMs;
  while (recorder.step(lock)) {
    if (environment.now() >= until) return;
    await sleep(Math.min(20, Math.max(1, until - environment.now())));
  }
  await sleep(PATIENCE_MS, undefined, { signal: lock.signal }).catch(() => undefined);
}

async function compete(seed: number): Promise<void> {
  const random = new SeededRandom(seed);
  while (!stopping) {
    await useOnce(random, (what) => waitingFor.set(seed, what));
    await sleep(random.between(0, 10));
  }
  waitingFor.delete(seed);
}

async function main(): Promise<void> {
  // The parent may be done before this process is up.
  const disconnected = new Promise<void>((resolve) =>
    process.connected ? process.once('disconnect', resolve) : resolve(),
  );
  process.send?.('started', () => undefined);
  const callers = Array.from({ length: settings.callers }, (_, index) =>
    compete(settings.seed + index),
  );
  const all = Promise.all(callers);
  await Promise.race([disconnected, all]);
  stopping = true;
  const limit = setTimeout(() => {
    const waiting = [...waitingFor.values()].join('; ') || 'close';
    process.stderr.write(`${settings.name} at ${environment.now()} still waits for: ${waiting}\n`);
    process.exit(1);
  }, END_LIMIT_MS);
  await all;
  await locks.close();
  clearTimeout(limit);
}

main().catch((error: unknown) => {
  process.stderr.write(
    `${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  );
  process.exit(1);
});
