import { load, NotGranted, whileWorking, type Library, type Locks } from '../library.ts';

/** Half of the ttl before its end. */
const thresholdOf = (ttlMs: number): number => ttlMs / 2;

async function connect(urls: readonly string[], options: object) {
  const { createClient } = load('redis');
  const { RedlockService } = load('@nestjs-redis/lock');
  const clients = urls.map((url) => createClient({ url }).on('error', () => undefined));
  await Promise.all(clients.map((client) => client.connect()));
  const close = async (): Promise<void> => clients.forEach((client) => client.destroy());
  return { service: new RedlockService(clients, options), close };
}

export const library: Library = {
  package: '@nestjs-redis/lock',
  servers: 'redis',
  errors: ['NotGranted', 'InvalidParameterError'],
  defaults: {
    what: 'one server, `withLock`',
    servers: 1,
    async open(urls, ttlMs): Promise<Locks> {
      const { service, close } = await connect(urls, {});
      const said = { isHeld: () => undefined };
      return {
        acquire: (key) => whileWorking((work) => service.withLock(key, ttlMs, () => work(said))),
        close,
      };
    },
  },
  best: {
    what: 'five servers, `startAutoExtension`, 30 tries',
    servers: 5,
    async open(urls, ttlMs): Promise<Locks> {
      const { service, close } = await connect(urls, { maxRetryAttempts: 30 });
      return {
        acquire: async (key) => {
          const lock = await service.acquire(key, ttlMs);
          if (!lock) throw new NotGranted();
          lock.startAutoExtension(thresholdOf(ttlMs));
          return { isHeld: () => lock.isValid, release: () => lock.release() };
        },
        close,
      };
    },
  },
};
