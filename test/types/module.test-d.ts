// Checked by `npm run typecheck`: an error that is expected and does not come fails it.
import { TransactionHost } from '@nestjs-cls/transactional';
import { Redis } from 'ioredis';
import pg from 'pg';
import { Fence, postgresFence, postgresTokenSource, redisFence } from '../../lib/fencing/index.ts';
import {
  Fenced,
  inClsTransaction,
  RedlockModule,
  type LockService,
  type RedlockModuleAsyncOptions,
  type RedlockModuleOptions,
  type RedlockOptionsFactory,
} from '../../lib/index.ts';
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
RedlockModule.forRootAsync({
  inject: [Redis, { token: 'strict', optional: true }],
  useFactory: (client: Redis, strict?: boolean) =>
    strict
      ? { nodes: [client], strict, ttl: '10s', onEvent: (event) => void event.type }
      : { nodes: [client], tokens: { issue: async ({ keys }) => keys.length } },
});
RedlockModule.forRootAsync({
  useFactory: async () => ({
    nodes: ['redis://one'],
    wait: 0,
    onEvent: (event) => void event.type,
  }),
});
RedlockModule.forRootAsync({ useFactory: (): RedlockModuleOptions => ({ nodes: [] }) });
RedlockModule.forRootAsync({ useFactory: () => JSON.parse('{}') });
RedlockModule.forRootAsync({ useFactory: async () => JSON.parse('{}') });
declare const asyncOptions: RedlockModuleAsyncOptions;
RedlockModule.forRootAsync(asyncOptions);
RedlockModule.forRootAsync({ ...asyncOptions, isGlobal: false });
declare const configured: RedlockModuleOptions & { describe(): string };
RedlockModule.forRootAsync({ useFactory: () => configured });
// @ts-expect-error it is `imports`
RedlockModule.forRootAsync({ useFactory: () => ({ nodes: [] }), import: [] });
// @ts-expect-error not a duration
RedlockModule.forRootAsync({ useFactory: () => ({ nodes: ['redis://one'], ttl: '10 seconds' }) });

const pool = new pg.Pool();
const nodes = ['redis://one'];
RedlockModule.forRoot({
  nodes,
  fence: postgresFence(pool),
  tokens: postgresTokenSource(pool),
  isInTransaction: inClsTransaction(TransactionHost),
});
RedlockModule.forRoot({
  nodes,
  fence: redisFence(new Redis('redis://data', { lazyConnect: true })),
});
RedlockModule.forRoot({ nodes, fence: { claim: async (token) => void token.holder } });
// @ts-expect-error nothing to claim at
RedlockModule.forRoot({ nodes, fence: {} });
// @ts-expect-error a class without getInstance
RedlockModule.forRoot({ nodes, isInTransaction: inClsTransaction(Redis) });

export class Seats {
  constructor(
    private readonly fence: Fence<pg.PoolClient>,
    readonly anyFence: Fence,
  ) {}

  @Fenced('seat', { claim: true })
  async count(): Promise<number | null> {
    // @ts-expect-error the transaction is a client of pg
    await this.fence.transaction(undefined, (tx) => tx.select());
    await this.anyFence.transaction(undefined, (tx) => tx.anything());
    return this.fence.transaction(undefined, async (tx) => (await tx.query('SELECT 1')).rowCount);
  }
}
// @ts-expect-error yes or no
Fenced('seat', { claim: 'yes' });

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
