import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Redis } from 'ioredis';
import { TTL_MS, type LockContestant } from './contestant.ts';

// Libraries of others, each with the options that it documents as its defaults and the ttl that all get. Their packages lie in a
// folder of their own, which nobody needs for anything else. Their clients are those of the raw lock.

const FOLDER = 'bench/peers';
const CLOSE_LIMIT_MS = 1_000;

/** Advice on how to get the peers; undefined when they are there. */
export function peersHint(): string | undefined {
  if (existsSync(resolve(FOLDER, 'node_modules'))) return undefined;
  return `Without other libraries; to measure them, too: npm ci --prefix ${FOLDER}`;
}

type Uses = Pick<LockContestant, 'cycle' | 'hold'>;
type Work = () => Promise<void>;

/** Use of a library. The modules are not installed with this package, so they have no types here. */
interface Peer {
  readonly module: string;
  /** Library for one server only. */
  readonly isSingle?: true;
  readonly use: (module: any, clients: Redis[]) => Uses;
}

const PEERS: Readonly<Record<string, Peer>> = {
  'redlock 5 beta': { module: 'redlock', use: useRedlock },
  '@sesamecare-oss/redlock': { module: '@sesamecare-oss/redlock', use: useRedlock },
  'redlock-universal': {
    module: 'redlock-universal',
    use: ({ createLock, createRedlock, IoredisAdapter }, clients) => {
      const adapters = clients.map((client) => new IoredisAdapter(client));
      const lockOf = (key: string) =>
        adapters.length === 1
          ? createLock({ adapter: adapters[0], key, ttl: TTL_MS })
          : createRedlock({ adapters, key, ttl: TTL_MS });
      return {
        cycle: async (key) => {
          const lock = lockOf(key);
          await lock.release(await lock.acquire());
        },
        hold: (key, work) => lockOf(key).using(work),
      };
    },
  },
  'redis-semaphore': {
    module: 'redis-semaphore',
    use: ({ Mutex, RedlockMutex }, clients) => {
      const hold = async (key: string, work: Work): Promise<void> => {
        const options = { lockTimeout: TTL_MS };
        const [client] = clients;
        const mutex =
          clients.length === 1
            ? new Mutex(client, key, options)
            : new RedlockMutex(clients, key, options);
        await mutex.acquire();
        try {
          await work();
        } finally {
          await mutex.release();
        }
      };
      return { cycle: (key) => hold(key, nothing), hold };
    },
  },
  '@microfleet/ioredis-lock': {
    module: '@microfleet/ioredis-lock',
    isSingle: true,
    use: ({ createLock }, [client]) => {
      const hold = async (key: string, work: Work): Promise<void> => {
        const lock = createLock(client, { timeout: TTL_MS });
        await lock.acquire(key);
        try {
          await work();
        } finally {
          await lock.release();
        }
      };
      return { cycle: (key) => hold(key, nothing), hold };
    },
  },
};

async function nothing(): Promise<void> {}

/** The same in both libraries of this name. */
function useRedlock(module: any, clients: Redis[]): Uses {
  const Redlock = module.Redlock ?? module.default;
  const redlock = new Redlock(clients);
  redlock.on('error', () => undefined);
  return {
    cycle: async (key) => {
      const lock = await redlock.acquire([key], TTL_MS);
      await lock.release();
    },
    hold: (key, work) => redlock.using([key], TTL_MS, work),
  };
}

/** Names of the libraries that are installed and can use so many servers. */
export function peerNames(nodes: number): string[] {
  if (peersHint() !== undefined) return [];
  return Object.keys(PEERS).filter((name) => nodes === 1 || !PEERS[name]!.isSingle);
}

export async function connectPeer(name: string, urls: readonly string[]): Promise<LockContestant> {
  const { module, use } = PEERS[name]!;
  const path = createRequire(resolve(FOLDER, 'package.json')).resolve(module);
  const loaded = await import(pathToFileURL(path).href);
  const clients = urls.map((url) => new Redis(url));
  for (const client of clients) client.on('error', () => undefined);
  await Promise.all(clients.map((client) => client.ping()));
  return {
    name,
    ...use(loaded.default?.default === undefined ? loaded : loaded.default, clients),
    close: async () => {
      // Answers that are still on their way come first, where the server gives any.
      const quits = clients.map((client) => client.quit().catch(() => undefined));
      await Promise.race([Promise.all(quits), sleep(CLOSE_LIMIT_MS)]);
      for (const client of clients) client.disconnect();
    },
  };
}
