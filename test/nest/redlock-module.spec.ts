import 'reflect-metadata';
import { Inject, Injectable, Module, type Provider, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Redlock } from '../../lib/core/redlock.ts';
import {
  Fenced,
  FencingToken,
  fencingToken,
  LockService,
  RedlockModule,
  REDLOCK_NODES,
  type RedlockModuleOptions,
  type RedlockOptionsFactory,
} from '../../lib/index.ts';
import { createFencingToken, createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, closeLater, redlockInMemory, silentLogger } from './support/applications.ts';

const NODES = 'NODES';

@Module({
  providers: [{ provide: NODES, useFactory: () => createMemoryNodes(3) }],
  exports: [NODES],
})
class ConfigurationModule {}

@Injectable()
class InjectedOptions implements RedlockOptionsFactory {
  constructor(@Inject(NODES) private readonly nodes: RedlockModuleOptions['nodes']) {}

  createRedlockOptions(): RedlockModuleOptions {
    return { nodes: this.nodes };
  }
}

@Module({
  imports: [ConfigurationModule],
  providers: [InjectedOptions],
  exports: [InjectedOptions],
})
class ExistingOptionsModule {}

@Injectable()
class Seats {
  @Fenced('seat', { wait: 0 })
  async book(@FencingToken() token = fencingToken()): Promise<string> {
    return `booked ${token.keys.join()}`;
  }
}

@Injectable()
class ClaimingSeats {
  @Fenced('seat', { claim: true })
  async book(): Promise<void> {}
}

@Module({ providers: [Seats], exports: [Seats] })
class SeatsModule {}

afterEach(closeAll);

async function start(imports: any[], nodes?: unknown, providers: Provider[] = []) {
  const building = Test.createTestingModule({ imports, providers }).setLogger(silentLogger);
  if (nodes !== undefined) building.overrideProvider(REDLOCK_NODES).useValue(nodes);
  return closeLater(await (await building.compile()).init());
}

const bookIn = async (...imports: any[]) =>
  (await start(imports)).get(Seats, { strict: false }).book();

describe('RedlockModule', () => {
  it('says once what to import where its class was imported without forRoot', async () => {
    const boot = start([RedlockModule]);
    await expect(boot).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    const { message } = (await boot.catch((error: unknown) => error)) as Error;
    expect(message.match(/RedlockModule\.forRoot\(\{ nodes/g)).toHaveLength(1);
  });

  it('says what to import where LockService was given to Nest as a provider', async () => {
    await expect(start([], undefined, [LockService])).rejects.toThrow(
      /import RedlockModule\.forRoot\(\{ nodes/,
    );
  });

  it('says what forRootAsync needs where it injects what its module does not import', async () => {
    const redlock = RedlockModule.forRootAsync({
      inject: [NODES],
      useFactory: (nodes: RedlockModuleOptions['nodes']) => ({ nodes }),
    });
    await expect(start([redlock])).rejects.toThrow(/forRootAsync .*imports: \[/);
  });

  it.each<[string, () => unknown]>([
    ['forRoot', redlockInMemory],
    [
      'useFactory',
      () =>
        RedlockModule.forRootAsync({
          imports: [ConfigurationModule],
          inject: [NODES],
          useFactory: async (nodes: RedlockModuleOptions['nodes']) => ({ nodes }),
        }),
    ],
    [
      'useClass',
      () =>
        RedlockModule.forRootAsync({ imports: [ConfigurationModule], useClass: InjectedOptions }),
    ],
    [
      'useExisting',
      () =>
        RedlockModule.forRootAsync({
          imports: [ExistingOptionsModule],
          useExisting: InjectedOptions,
        }),
    ],
  ])('serves modules that do not import it, with options of %s', async (_form, redlock) => {
    await expect(bookIn(redlock(), SeatsModule)).resolves.toBe('booked seat');
  });

  it.each([
    ['forRoot', () => redlockInMemory({ isGlobal: false } as object)],
    [
      'forRootAsync',
      () =>
        RedlockModule.forRootAsync({
          isGlobal: false,
          useFactory: () => ({ nodes: createMemoryNodes(1) }),
        }),
    ],
  ])('is not global with isGlobal: false in %s', async (_form, redlock) => {
    await expect(start([redlock(), SeatsModule])).rejects.toThrow(/RedlockModule\.forRoot/);
    @Module({ imports: [redlock()], providers: [Seats] })
    class ImportingModule {}
    await expect(bookIn(ImportingModule)).resolves.toBe('booked seat');
  });

  it('is refused twice in an application, also where it is not global, and both sets of nodes are named', async () => {
    const urls = (name: string) => ({ nodes: [`redis://:secret@${name}`], isGlobal: false });
    const [first, same, other] = ['a', 'a', 'b'].map((name) => RedlockModule.forRoot(urls(name)));
    const late = RedlockModule.forRootAsync({
      useFactory: async () => ({ nodes: urls('b').nodes }),
    });
    for (const [second, name] of [
      [same, 'a'],
      [other, 'b'],
      [late, 'b'],
    ] as const) {
      const boot = start([first, second]);
      await expect(boot).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      await expect(boot).rejects.toThrow(new RegExp(`twice.* a:6379, .* ${name}:6379\\.`));
      await expect(boot).rejects.not.toThrow(/secret/);
    }
  });

  it.each(['first', 'second'])(
    'is refused twice for that reason, where only the %s has the fence that a method claims at',
    async (fenced) => {
      const [first, second] = ['first', 'second'].map((name) =>
        redlockInMemory(name === fenced ? { fence: { claim: async () => undefined } } : {}),
      );
      const boot = start([first, second], undefined, [ClaimingSeats]);
      await expect(boot).rejects.toThrow(/is in this application twice/);
    },
  );

  it('is one service when what forRoot returned is imported twice', async () => {
    const redlock = redlockInMemory({ isGlobal: false } as object);
    @Module({ imports: [redlock], providers: [Seats] })
    class First {}
    @Module({ imports: [redlock], providers: [{ provide: 'LOCKS', useExisting: LockService }] })
    class Second {}
    const module = await start([First, Second]);
    expect(module.get('LOCKS', { strict: false })).toBe(module.get(LockService, { strict: false }));
  });

  it.each([
    ['two databases', ['redis://one:6379/0', 'redis://ONE:6379/1']],
    ['a URL and options', ['redis://one', { host: 'one', port: 6379 }]],
    ['a socket twice', [{ path: '/run/redis.sock' }, { path: '/run/redis.sock', db: 1 }]],
  ])('refuses a server that is listed twice, as %s', async (_as, nodes) => {
    const boot = start([RedlockModule.forRoot({ nodes })]);
    await expect(boot).rejects.toThrow(/listed twice/);
    await expect(boot).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'nodes' });
  });
});

// Ports that refuse every connection: an application that used these nodes would not start.
const nodes = ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', 'redis://127.0.0.1:3'];
const keyPrefix = 'app:';

@Module({ imports: [RedlockModule.forRoot({ nodes, keyPrefix })], providers: [Seats] })
class AppModule {}

@Module({
  imports: [RedlockModule.forRootAsync({ useFactory: () => ({ nodes, keyPrefix }) })],
  providers: [Seats],
})
class AsyncAppModule {}

describe('REDLOCK_NODES', () => {
  it.each<Type>([AppModule, AsyncAppModule])(
    'replaces the nodes of the real %p, and keys can be made busy and taken over',
    async (root) => {
      const replaced = createMemoryNodes(3);
      const module = await start([root], replaced);
      const [seats, locks] = [module.get(Seats), module.get(LockService)];
      expect(await seats.book()).toBe('booked seat');
      const closed = jest.spyOn(Redlock.prototype, 'close');
      const other = await occupy(replaced, 'seat', { keyPrefix });
      await expect(seats.book()).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      const again = occupy(replaced, 'seat', { keyPrefix });
      await expect(again).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      await other.release();
      // Redlocks that each of them had opened.
      expect(closed).toHaveBeenCalledTimes(2);
      closed.mockRestore();
      const lock = await locks.acquire(['a', 'seat']);
      const newer = await occupy(replaced, ['a', 'seat'], { takeOver: true, keyPrefix });
      expect(newer.token.value).toBeGreaterThan(lock.token.value);
      await lock.extend().catch(() => undefined);
      expect([lock.isHeld, lock.signal.reason]).toMatchObject([false, { reason: 'taken' }]);
      await newer.release();
      expect(await seats.book()).toBe('booked seat');
    },
  );

  it('may be shared by applications, which exclude each other and end each by itself', async () => {
    const shared = createMemoryNodes(3);
    const modules = [await start([AppModule], shared), await start([AppModule], shared)];
    const [first, second] = modules.map((module) => module.get(LockService));
    const held = await first!.acquire('a');
    expect(await second!.tryAcquire('a')).toBeNull();
    await modules[1]!.close();
    await expect(held.extend()).resolves.toBeUndefined();
    await held.release();
    await modules[0]!.close();
    // The nodes themselves serve the next one: what a test orders of them is met.
    const third = (await start([AppModule], shared)).get(LockService);
    for (const node of shared) node.failNext({ error: 'OOM' }, { command: 'acquire' });
    await expect(third.acquire('b', { wait: 0 })).rejects.toThrow('OOM');
  });

  it('is refused where it is nothing: no one connects to the nodes of the options', async () => {
    // Nest 11 keeps the original where the value is undefined.
    await expect(start([AppModule], null)).rejects.toMatchObject({ option: 'nodes' });
    await expect(occupy(['redis://127.0.0.1'] as never, 'a')).rejects.toMatchObject({
      option: 'nodes',
    });
    const misspelled = { takeover: true } as never;
    await expect(occupy(createMemoryNodes(1), 'a', misspelled)).rejects.toThrow('takeover');
  });
});

describe('createFencingToken', () => {
  it('makes tokens that a method can be called with, each of its own holder', () => {
    const [old, newer] = [createFencingToken('seat:1', 41), createFencingToken(['seat:1'], 42)];
    expect([old.keys, newer.value, old < newer]).toEqual([['seat:1'], 42, true]);
    expect(old.holder).not.toBe(newer.holder);
    expect(() => createFencingToken('seat:1', 0)).toThrow(RangeError);
    expect(() => createFencingToken([])).toThrow('Wrong lock key');
  });
});
