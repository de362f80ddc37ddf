import 'reflect-metadata';
import { Injectable, Module, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Redlock } from '../../lib/core/redlock.ts';
import {
  Fenced,
  FencingToken,
  fencingToken,
  LockBusyError,
  LockService,
  RedlockModule,
  REDLOCK_NODES,
} from '../../lib/index.ts';
import { createFencingToken, createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';

@Injectable()
class Seats {
  @Fenced('seat:{0}', { wait: 0 })
  async book(id: string, @FencingToken() token = fencingToken()): Promise<string> {
    return `${id} ${token.keys.join()}`;
  }
}

// These ports refuse every connection: an application that used these nodes would not start.
const nodes = ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', 'redis://127.0.0.1:3'];

@Module({
  imports: [RedlockModule.forRoot({ nodes, keyPrefix: 'app:' })],
  providers: [Seats],
})
class AppModule {}

@Module({
  imports: [RedlockModule.forRootAsync({ useFactory: () => ({ nodes, keyPrefix: 'app:' }) })],
  providers: [Seats],
})
class AsyncAppModule {}

const started = async (root: Type, replaced: ReturnType<typeof createMemoryNodes>) => {
  const module = closeLater(
    await Test.createTestingModule({ imports: [root] })
      .overrideProvider(REDLOCK_NODES)
      .useValue(replaced)
      .setLogger(silentLogger)
      .compile(),
  );
  return module.init();
};

describe('REDLOCK_NODES', () => {
  afterEach(closeAll);

  it.each([AppModule, AsyncAppModule])(
    'replaces the nodes of the real %p, and keys can be made busy',
    async (root) => {
      const replaced = createMemoryNodes(3);
      const seats = (await started(root, replaced)).get(Seats);
      expect(await seats.book('1')).toBe('1 seat:1');
      const closed = jest.spyOn(Redlock.prototype, 'close');
      const other = await occupy(replaced, 'seat:1', { keyPrefix: 'app:' });
      await expect(seats.book('1')).rejects.toThrow(LockBusyError);
      const again = occupy(replaced, 'seat:1', { keyPrefix: 'app:' });
      await expect(again).rejects.toThrow(LockBusyError);
      await other.release();
      // What each of them had opened.
      expect(closed).toHaveBeenCalledTimes(2);
      closed.mockRestore();
      expect(await seats.book('1')).toBe('1 seat:1');
    },
  );
});

describe('occupy', () => {
  afterEach(closeAll);

  it('takes several keys over with a newer token', async () => {
    const replaced = createMemoryNodes(3);
    const module = await started(AppModule, replaced);
    const lock = await module.get(LockService).acquire(['a', 'b']);
    const newer = await occupy(replaced, ['a', 'b'], { takeOver: true, keyPrefix: 'app:' });
    expect(newer.token.value).toBeGreaterThan(lock.token.value);
    await lock.extend().catch(() => undefined);
    expect([lock.isHeld, lock.signal.reason]).toMatchObject([false, { reason: 'taken' }]);
    await newer.release();
    expect(await module.get(LockService).inspect('a')).toMatchObject({ holder: null });
  });
});

describe('nodes in memory that several applications are given', () => {
  afterEach(closeAll);

  it('exclude them from each other, and the end of one is not that of the others', async () => {
    const shared = createMemoryNodes(3);
    const modules = [
      await started(AppModule, shared),
      await started(AppModule, shared),
      await started(AppModule, shared),
    ];
    const [first, second, third] = modules.map((module) => module.get(LockService));
    const held = await first!.acquire('a');
    expect(await second!.tryAcquire('a')).toBeNull();
    await modules[2]!.close();
    await expect(third!.acquire('a')).rejects.toMatchObject({ code: 'REDLOCK_CLOSED' });
    await held.release();
    const next = await second!.acquire('a');
    expect(next.token.value).toBeGreaterThan(held.token.value);
    await modules[0]!.close();
    await expect(next.extend()).resolves.toBeUndefined();
    await next.release();
    // The nodes themselves serve the next one: what a test orders of them is met.
    const fourth = (await started(AppModule, shared)).get(LockService);
    for (const node of shared) node.failNext({ error: 'OOM' }, { command: 'acquire' });
    await expect(fourth.acquire('b', { wait: 0 })).rejects.toThrow('OOM');
  });
});

describe('what is no replacement', () => {
  afterEach(closeAll);

  it('is refused: nothing connects to the nodes of the options, or to none at all', async () => {
    const building = Test.createTestingModule({ imports: [AppModule] })
      .overrideProvider(REDLOCK_NODES)
      // Nest 11 keeps the original where the value is undefined.
      .useValue(null)
      .setLogger(silentLogger);
    await expect(building.compile()).rejects.toMatchObject({ option: 'nodes' });
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
