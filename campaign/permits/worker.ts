import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Redis } from 'ioredis';
import { Redlock } from '../../lib/core/redlock.ts';
import { createRedisNode } from '../../lib/redis/client/create-redis-node.ts';
import { HistoryFile } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { answerQuestions, programSettings } from '../../test/support/program.ts';

// A process with one caller, which takes a permit, holds it for a moment, and takes the next, until it is stopped.

export interface WorkerSettings {
  readonly kind: 'ours' | 'redis-semaphore';
  readonly name: string;
  readonly nodes: readonly string[];
  readonly permits: number;
  /** How far its wall clock is ahead. */
  readonly clockMs: number;
  readonly file: string;
}

export interface WorkerState {
  readonly grants: number;
  /** The calls that got no permit, by the code of their error. */
  readonly refused: Record<string, number>;
  /** How often it said that others have another number of permits. */
  readonly differ: number;
}

/** A permit that was taken: until when it may be believed, and how to give it back. */
interface Taken {
  readonly holder: string;
  readonly validUntil: number;
  release(): Promise<unknown>;
}

export const TTL_MS = 2_000;
const HOLD_MS = 20;
const WAIT_MS = 60_000;
const KEY = 'api';

const settings = programSettings<WorkerSettings>();
const { kind, name, nodes, permits, clockMs } = settings;
const now = Date.now;
Date.now = () => now() + clockMs;
const history = new HistoryFile(settings.file);
const refused: Record<string, number> = {};
let [grants, differ, isStopped] = [0, 0, false];

async function useOurs(): Promise<() => Promise<Taken>> {
  const redlock = new Redlock(
    nodes.map((url) => createRedisNode(url)),
    {
      ttl: TTL_MS,
      restartGuard: false,
      identity: false,
      onEvent: ({ type }) => void (differ += type === 'permits-differ' ? 1 : 0),
    },
  );
  redlock.open();
  await redlock.ready(30_000);
  return async () => {
    const lock = await redlock.acquire(KEY, { permits, wait: WAIT_MS });
    const validUntil = historyNow() + lock.remainingMs;
    return { holder: lock.token.holder, validUntil, release: () => lock.release() };
  };
}

/** The semaphore of a library: on one server, as it has it. It is installed by `npm ci --prefix bench/peers`. */
async function useSemaphore(): Promise<() => Promise<Taken>> {
  const path = createRequire(resolve('bench/peers/package.json')).resolve('redis-semaphore');
  const { default: loaded } = await import(pathToFileURL(path).href);
  const client = new Redis(nodes[0]!);
  const times = { lockTimeout: TTL_MS, acquireTimeout: WAIT_MS, refreshInterval: 0 };
  return async () => {
    const semaphore = new loaded.Semaphore(client, KEY, permits, times);
    const startedAt = historyNow();
    await semaphore.acquire();
    const holder = `${name} ${startedAt}`;
    // The time of its last try is not known: what it holds is shorter by a second than it says.
    return { holder, validUntil: historyNow() + TTL_MS / 2, release: () => semaphore.release() };
  };
}

async function work(take: () => Promise<Taken>): Promise<void> {
  while (!isStopped) {
    const startedAt = historyNow();
    try {
      const taken = await take();
      const { holder, validUntil } = taken;
      const at = historyNow();
      const grant = { keys: [KEY], token: 0, startedAt, validUntil, held: validUntil > at };
      history.append({ type: 'granted', process: name, holder, at, ...grant });
      grants += 1;
      await sleep(HOLD_MS);
      history.append({ type: 'released', process: name, holder, at: historyNow() });
      await taken.release();
    } catch (error) {
      const { code = String(error) } = error as { readonly code?: string };
      refused[code] = (refused[code] ?? 0) + 1;
    }
  }
}

const take = await (kind === 'ours' ? useOurs() : useSemaphore());
process.on('disconnect', () => process.exit());
answerQuestions<{ readonly ask: 'start' | 'stop' }>('ready', ({ ask }): WorkerState | undefined => {
  isStopped = ask === 'stop';
  if (ask === 'start') void work(take);
  return isStopped ? { grants, refused, differ } : undefined;
});
