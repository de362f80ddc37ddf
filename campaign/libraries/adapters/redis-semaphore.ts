import { connectRedis, disconnect, load, type Library, type Locks } from '../library.ts';

async function open(urls: readonly string[], lockTimeout: number, more: object): Promise<Locks> {
  const { Mutex, RedlockMutex } = load('redis-semaphore');
  const clients = connectRedis(urls);
  const mutexOf = (key: string) => {
    const options = { lockTimeout, ...more };
    return clients.length === 1
      ? new Mutex(clients[0], key, options)
      : new RedlockMutex(clients, key, options);
  };
  return {
    acquire: async (key) => {
      const mutex = mutexOf(key);
      await mutex.acquire();
      return { isHeld: () => mutex.isAcquired, release: () => mutex.release() };
    },
    close: () => disconnect(clients),
  };
}

export const library: Library = {
  package: 'redis-semaphore',
  servers: 'redis',
  errors: ['LostLockError', 'TimeoutError'],
  defaults: { what: 'one server', servers: 1, open: (urls, ttlMs) => open(urls, ttlMs, {}) },
  best: {
    what: 'five servers, `onLockLost`',
    servers: 5,
    open: (urls, ttlMs) => open(urls, ttlMs, { onLockLost: () => undefined }),
  },
};
