import { connectRedis, disconnect, load, type Library, type Locks } from '../library.ts';

async function open(urls: readonly string[], ttlMs: number): Promise<Locks> {
  const Redlock = load('redlock-4');
  const clients = connectRedis(urls);
  const redlock = new Redlock(clients);
  return {
    acquire: async (key) => {
      const lock = await redlock.lock(key, ttlMs);
      return { isHeld: () => lock.expiration > Date.now(), release: () => lock.unlock() };
    },
    close: () => disconnect(clients),
  };
}

export const library: Library = {
  package: 'redlock-4',
  servers: 'redis',
  errors: ['LockError'],
  defaults: { what: 'one server', servers: 1, open },
  best: { what: 'five servers', servers: 5, open },
};
