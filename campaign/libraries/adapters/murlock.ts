import { load, whileWorking, type Library, type Locks } from '../library.ts';

async function open(url: string, ttlMs: number, options: object): Promise<Locks> {
  load('reflect-metadata');
  const { NestFactory } = load('@nestjs/core');
  const { MurLockModule, MurLockService } = load('murlock');
  const module = MurLockModule.forRoot({
    redisOptions: { url },
    // These it makes you name; here they are those of its manual.
    wait: 1_000,
    maxAttempts: 3,
    logLevel: 'none',
    ...options,
  });
  const application = await NestFactory.createApplicationContext(module, { logger: false });
  const service = application.get(MurLockService);
  const said = { isHeld: () => undefined };
  return {
    acquire: (key) => whileWorking((work) => service.runWithLock(key, ttlMs, () => work(said))),
    close: () => application.close(),
  };
}

export const library: Library = {
  package: 'murlock',
  servers: 'redis',
  errors: ['MurLockException'],
  defaults: {
    what: 'one server, the settings of its manual',
    servers: 1,
    open: ([url], ttlMs) => open(url!, ttlMs, {}),
  },
  best: {
    what: 'one server, `blocking`',
    servers: 1,
    open: ([url], ttlMs) => open(url!, ttlMs, { blocking: true, wait: 100 }),
  },
};
