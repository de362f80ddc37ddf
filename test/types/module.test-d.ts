// Checked by `npm run typecheck`: an error that is expected and does not come fails it.
import { Redis } from 'ioredis';
import { RedlockModule, type LockService, type RedlockOptionsFactory } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';

RedlockModule.forRoot({
  nodes: [
    'redis://one',
    { host: 'two', port: 6380 },
    new Redis('redis://three', { lazyConnect: true }),
  ],
  ttl: '10s',
  strict: true,
  isGlobal: false,
});
RedlockModule.forRoot({ nodes: createMemoryNodes(3) });
RedlockModule.forRootAsync({
  useFactory: async (url: string) => ({ nodes: [url] }),
  inject: ['URL'],
});

class Options implements RedlockOptionsFactory {
  createRedlockOptions() {
    return { nodes: ['redis://one'] };
  }
}
RedlockModule.forRootAsync({ useClass: Options, isGlobal: false });
RedlockModule.forRootAsync({ useExisting: Options });

// @ts-expect-error nodes are required
RedlockModule.forRoot({});
// @ts-expect-error a number is no node
RedlockModule.forRoot({ nodes: [42] });
// @ts-expect-error not a duration
RedlockModule.forRoot({ nodes: ['redis://one'], ttl: '10 seconds' });
// @ts-expect-error the factory makes no options
RedlockModule.forRootAsync({ useFactory: () => 42 });

export async function lockService(locks: LockService): Promise<void> {
  const result: number = await locks.withLock('a', (lock) => lock.token.value);
  const maybe = await locks.tryAcquire(['a', 'b'], { wait: result });
  // @ts-expect-error null when busy
  await maybe.release();
  await maybe?.release();
  await using lock = await locks.acquire('a', { signal: AbortSignal.timeout(1) });
  lock.ensure(100);
}
