import 'reflect-metadata';
import { Inject, Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Fenced,
  LockService,
  RedlockModule,
  type RedlockModuleOptions,
  type RedlockOptionsFactory,
} from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
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
    return { nodes: this.nodes, restartGuard: false };
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
  @Fenced('seat')
  async book(): Promise<string> {
    return 'booked';
  }
}

@Module({ providers: [Seats], exports: [Seats] })
class SeatsModule {}

describe('RedlockModule', () => {
  afterEach(closeAll);

  async function start(...imports: any[]) {
    const module = await Test.createTestingModule({ imports }).setLogger(silentLogger).compile();
    closeLater(await module.init());
    return module;
  }

  it('says what to import where its class was imported without forRoot', async () => {
    await expect(start(RedlockModule)).rejects.toThrow(/import RedlockModule\.forRoot\(\{ nodes/);
  });

  it('serves modules that do not import it', async () => {
    const module = await start(redlockInMemory(), SeatsModule);
    await expect(module.get(Seats, { strict: false }).book()).resolves.toBe('booked');
  });

  it.each([
    [
      'useFactory',
      () =>
        RedlockModule.forRootAsync({
          imports: [ConfigurationModule],
          inject: [NODES],
          useFactory: async (nodes: RedlockModuleOptions['nodes']) => ({
            nodes,
            restartGuard: false,
          }),
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
  ])('takes its options from %s', async (_form, redlock) => {
    const module = await start(redlock(), SeatsModule);
    await expect(module.get(Seats, { strict: false }).book()).resolves.toBe('booked');
  });

  it.each([
    ['forRoot', () => RedlockModule.forRoot({ nodes: createMemoryNodes(1), isGlobal: false })],
    [
      'forRootAsync',
      () =>
        RedlockModule.forRootAsync({
          isGlobal: false,
          useFactory: () => ({ nodes: createMemoryNodes(1) }),
        }),
    ],
  ])('is not global with isGlobal: false in %s', async (_form, redlock) => {
    await expect(start(redlock(), SeatsModule)).rejects.toThrow(/RedlockModule\.forRoot/);
    @Module({ imports: [redlock()], providers: [Seats] })
    class ImportingModule {}
    const module = await start(ImportingModule);
    await expect(module.get(Seats).book()).resolves.toBe('booked');
  });

  describe('in an application twice', () => {
    const urls = (...names: string[]) => ({
      nodes: names.map((name) => `redis://:secret@${name}`),
    });

    it.each([
      [
        'with forRoot',
        () => [urls('a', 'b', 'c'), urls('d')].map((each) => RedlockModule.forRoot(each)),
      ],
      [
        'with forRootAsync',
        () =>
          [urls('a', 'b', 'c'), urls('d')].map((options) =>
            RedlockModule.forRootAsync({ useFactory: async () => options }),
          ),
      ],
    ])('is refused when the nodes differ, and both are named: %s', async (_form, modules) => {
      const boot = start(...modules());
      await expect(boot).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      await expect(boot).rejects.toThrow(/twice/);
      await expect(boot).rejects.toThrow(/nodes a:6379, b:6379, c:6379/);
      await expect(boot).rejects.toThrow(/nodes d:6379/);
      await expect(boot).rejects.not.toThrow(/secret/);
    });

    it('is refused when the nodes are the same, also where it is not global', async () => {
      const redlock = () => RedlockModule.forRoot({ ...urls('a'), isGlobal: false });
      @Module({ imports: [redlock()] })
      class First {}
      @Module({ imports: [redlock()] })
      class Second {}
      await expect(start(First, Second)).rejects.toThrow(
        /twice.*keep what it returned in a constant/,
      );
    });

    it('is one service when what forRoot returned is imported twice', async () => {
      const redlock = RedlockModule.forRoot({
        nodes: createMemoryNodes(3),
        isGlobal: false,
        restartGuard: false,
      });
      @Module({ imports: [redlock], providers: [Seats] })
      class First {}
      @Module({ imports: [redlock], providers: [{ provide: 'LOCKS', useExisting: LockService }] })
      class Second {}
      const module = await start(First, Second);
      await expect(module.get(Seats, { strict: false }).book()).resolves.toBe('booked');
      expect(module.get('LOCKS', { strict: false })).toBe(
        module.get(LockService, { strict: false }),
      );
    });
  });

  it.each([
    ['two databases', ['redis://one:6379/0', 'redis://ONE:6379/1']],
    ['a URL and options', ['redis://one', { host: 'one', port: 6379 }]],
    ['a socket twice', [{ path: '/run/redis.sock' }, { path: '/run/redis.sock', db: 1 }]],
  ])('refuses a server that is listed twice, as %s, before connecting', async (_as, nodes) => {
    const boot = Test.createTestingModule({ imports: [RedlockModule.forRoot({ nodes })] })
      .setLogger(silentLogger)
      .compile();
    await expect(boot).rejects.toThrow(/listed twice/);
    await expect(boot).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'nodes' });
  });
});
