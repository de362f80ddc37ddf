import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Redis } from 'ioredis';
import type { Lock } from '../../lib/core/lock.ts';
import type { RedlockOptions } from '../../lib/core/options/options.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import type { RedisNodeInput } from '../../lib/redis/client/client-source.ts';
import { createRedisNode } from '../../lib/redis/client/create-redis-node.ts';
import type { CampaignEvent } from '../faults/campaign-event.ts';
import { LockRecorder } from '../faults/worker/lock-recorder.ts';
import { MachineEnvironment } from '../faults/worker/machine-environment.ts';
import type { HistoryFile } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { MAX_LAG_S, type Side } from './topology.ts';

export const TTL_MS = 2_000;
/** W of the rule, without drift. */
export const GUARD_MS = TTL_MS + MAX_LAG_S * 1_000 + 3_000;
const WAIT_MS = 6_000;
const RETRY_MS = 50;
const PEERS = 'bench/peers';

/** A lock that somebody holds, as far as it is known there. */
export interface Held {
  readonly lock?: Lock;
  /** Whether work may go on. */
  isHeld(): boolean;
  extend(): Promise<void>;
  release(): Promise<void>;
}

/** A client of its own that wants locks, and writes down what it believes. */
export interface Contestant {
  readonly side: Side;
  acquire(key: string): Promise<Held>;
  close(): Promise<unknown>;
}

export interface ContestantSettings {
  readonly input: RedisNodeInput;
  readonly keyPrefix: string;
  readonly side: Side;
  /** The name of the process in the history. */
  readonly name: string;
  readonly file: HistoryFile<CampaignEvent>;
}

type Start = (settings: ContestantSettings) => Promise<Contestant>;

/** The ways to lock: the rule, and what has to show that the judge can see. */
export const CONTESTANTS: Readonly<Record<string, Start>> = {
  failover: (settings) => startOurs(settings, { failover: { maxLag: MAX_LAG_S * 1_000 } }),
  // A second of W is for a last word of the replica that is late, and none is here.
  'W two seconds short': (settings) =>
    startOurs(settings, { failover: { maxLag: MAX_LAG_S * 1_000 - 2_000 } }),
  'guard off': (settings) => startOurs(settings, { restartGuard: false }),
  redlock: (settings) => startPeer(settings, 'redlock', useRedlock),
  'redis-semaphore': (settings) => startPeer(settings, 'redis-semaphore', useMutex),
};

async function startOurs(
  { input, keyPrefix, side, name, file }: ContestantSettings,
  options: RedlockOptions,
): Promise<Contestant> {
  const environment = new MachineEnvironment();
  const recorder = new LockRecorder(file, environment, { name, urls: [] });
  const given = { ttl: TTL_MS, nodeTimeout: 300, keyPrefix, onEvent: recorder.listen, ...options };
  const redlock = new Redlock([createRedisNode(input, { keyPrefix })], given, environment);
  redlock.open();
  return {
    side,
    acquire: async (key) => {
      const calledAt = historyNow();
      const lock = await redlock.acquire(key, { wait: WAIT_MS });
      recorder.granted(lock, calledAt);
      return {
        lock,
        isHeld: () => recorder.step(lock),
        extend: () => lock.extend(),
        release: () => {
          if (!lock.signal.aborted) recorder.releasing(lock);
          return lock.release();
        },
      };
    },
    close: () => redlock.close(),
  };
}

/** A lock of a library: until when it calls it held. Undefined where it was not to be had. */
interface PeerLock {
  validUntil: number;
  extend(): Promise<void>;
  release(): Promise<unknown>;
}

type UsePeer = (module: any, client: Redis) => (key: string) => Promise<PeerLock>;

let tokens = 0;

/** A library without tokens, of which only the validity is judged. It is installed by `npm ci --prefix bench/peers`. */
async function startPeer(
  { input, keyPrefix, side, name: process, file }: ContestantSettings,
  module: string,
  use: UsePeer,
): Promise<Contestant> {
  const path = createRequire(resolve(PEERS, 'package.json')).resolve(module);
  const { default: loaded } = await import(pathToFileURL(path).href);
  const client = new Redis(input as string);
  client.on('error', () => undefined);
  const take = use(loaded, client);
  return {
    side,
    acquire: async (key) => {
      const startedAt = historyNow();
      const lock = await take(keyPrefix + key);
      const at = historyNow();
      tokens += 1;
      const [token, holder] = [tokens, `${process}-${tokens}`];
      const { validUntil } = lock;
      const grant = { keys: [key], token, startedAt, validUntil, held: validUntil > at };
      file.append({ type: 'granted', process, holder, at, ...grant });
      const isHeld = () => historyNow() < lock.validUntil;
      return {
        isHeld,
        extend: async () => {
          await lock.extend();
          const extended = { at: historyNow(), validUntil: lock.validUntil };
          file.append({ type: 'extended', process, holder, ...extended });
        },
        release: async () => {
          file.append({ type: 'released', process, holder, at: historyNow() });
          if (isHeld()) await lock.release();
        },
      };
    },
    close: async () => client.disconnect(),
  };
}

function useRedlock(module: any, client: Redis): (key: string) => Promise<PeerLock> {
  const PeerRedlock = module.Redlock ?? module.default ?? module;
  // The library has no tries of its own here: it counts the validity from the first of them.
  const redlock = new PeerRedlock([client], { retryCount: 0 });
  redlock.on('error', () => undefined);
  // It is the time by the wall clock, as that library counts it.
  const until = ({ expiration }: any) => historyNow() + expiration - Date.now();
  return async (key) => {
    let latest = await redlock.acquire([key], TTL_MS);
    const lock: PeerLock = {
      validUntil: until(latest),
      extend: async () => {
        latest = await latest.extend(TTL_MS);
        lock.validUntil = until(latest);
      },
      release: () => latest.release(),
    };
    return lock;
  };
}

function useMutex(module: any, client: Redis): (key: string) => Promise<PeerLock> {
  return async (key) => {
    const options = { lockTimeout: TTL_MS, acquireTimeout: WAIT_MS, retryInterval: RETRY_MS };
    // The time of its last try is not known, and the lock began then.
    const uncertainMs = 100;
    const mutex = new module.Mutex(client, key, { ...options, refreshInterval: 0 });
    await mutex.acquire();
    const lock: PeerLock = {
      validUntil: historyNow() + TTL_MS - uncertainMs,
      extend: async () => {
        const askedAt = historyNow();
        if (!(await mutex._refresh())) throw new Error('lost');
        lock.validUntil = askedAt + TTL_MS;
      },
      release: () => mutex.release(),
    };
    return lock;
  };
}
