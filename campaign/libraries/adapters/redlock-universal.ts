import {
  connectRedis,
  disconnect,
  load,
  whileWorking,
  type Library,
  type Locks,
} from '../library.ts';

async function open(urls: readonly string[], ttl: number, options: object): Promise<Locks> {
  const { createLock, createRedlock, IoredisAdapter } = load('redlock-universal');
  const clients = connectRedis(urls);
  const adapters = clients.map((client) => new IoredisAdapter(client));
  const lockOf = (key: string) =>
    adapters.length === 1
      ? createLock({ adapter: adapters[0], key, ttl, ...options })
      : createRedlock({ adapters, key, ttl, ...options });
  return {
    acquire: (key) =>
      whileWorking((work) =>
        lockOf(key).using((signal: AbortSignal) => work({ isHeld: () => !signal.aborted })),
      ),
    close: () => disconnect(clients),
  };
}

export const library: Library = {
  package: 'redlock-universal',
  servers: 'redis',
  errors: ['LockAcquisitionError', 'LockReleaseError', 'LockExtensionError'],
  defaults: {
    what: 'one server, `using`',
    servers: 1,
    open: (urls, ttlMs) => open(urls, ttlMs, {}),
  },
  best: {
    what: 'five servers, `using`, 30 tries',
    servers: 5,
    open: (urls, ttlMs) => open(urls, ttlMs, { retryAttempts: 30 }),
  },
};
