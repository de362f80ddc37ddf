import 'reflect-metadata';
import { once } from 'node:events';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  Fenced,
  FencingToken,
  fencingToken,
  LockBusyError,
  LockService,
  LockSignal,
  lockSignal,
} from '../../lib/index.ts';
import { createFencingToken, createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';

const forged = createFencingToken('seat:1', 9_999_999_999_999);
const seenByKey: unknown[] = [];

@Injectable()
class Seats {
  readonly entered = new Gate();

  constructor(private readonly locks: LockService) {}

  @Fenced(function (...args: unknown[]) {
    seenByKey.push(...args);
    return 'seat:1';
  } as () => string)
  async book(
    @FencingToken() token = fencingToken(),
    id = '',
    @LockSignal() signal = lockSignal(),
    @FencingToken() again = fencingToken(),
  ) {
    const lock = this.locks.current()!;
    const isOwn = lock.token === token && lock.token === again && lock.signal === signal;
    return { id, isOwn, token };
  }

  @Fenced('seat:{0}')
  async untilLost(_id: string, @LockSignal() signal = lockSignal()): Promise<unknown> {
    this.entered.open();
    await once(signal, 'abort');
    return signal.reason;
  }

  @Fenced('seat:{0}', { signal: (_id: string, signal?: AbortSignal) => signal, wait: '1m' })
  async patient(id: string, _signal?: AbortSignal): Promise<string> {
    return id;
  }

  @Fenced('seat:{0}', { signal: (_id, signal) => signal, wait: '1m', onBusy: 'skip' })
  async skipping(id: string, _signal?: AbortSignal): Promise<string | undefined> {
    return id;
  }
}

@Injectable()
class Overriding extends Seats {
  constructor(locks: LockService) {
    super(locks);
  }

  @Fenced('seat:1')
  override async book(first?: any, id = '', signal?: any, again?: any): Promise<any> {
    return [first, id, signal, again];
  }
}

describe('@FencingToken() and @LockSignal()', () => {
  afterEach(closeAll);
  afterEach(() => void jest.useRealTimers());

  it.each([
    ['nothing is passed', []],
    ['a caller passes others', [forged, '7', new AbortController().signal, forged]],
  ])('fill each parameter with what belongs to the lock where %s', async (_, args) => {
    seenByKey.length = 0;
    const seats = (await startModule({ providers: [Seats] })).get(Seats);
    const { id, isOwn, token } = await seats.book(...(args as []));
    expect([id, isOwn]).toEqual([args[1] ?? '', true]);
    // The key function, too, does not see what a caller forged.
    expect(seenByKey).toEqual(args.length > 0 ? [undefined, '7', undefined, undefined] : []);
    expect(token.keys).toEqual(['seat:1']);
    expect(Number.isSafeInteger(token.value)).toBe(true);
    expect(Object.isFrozen(token)).toBe(true);
  });

  it('fill no parameter of a method that overrides theirs', async () => {
    const seats = (await startModule({ providers: [Overriding] })).get(Overriding);
    expect(await seats.book('mine', '7')).toEqual(['mine', '7', undefined, undefined]);
  });

  it('abort the work when the lock is lost', async () => {
    const nodes = createMemoryNodes(3);
    const seats = (await startModule({ providers: [Seats] }, { nodes, ttl: '1m' })).get(Seats);
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
    const lost = seats.untilLost('1');
    await seats.entered.opened;
    await using _newer = await occupy(nodes, 'seat:1', { takeOver: true });
    const reason = { code: 'LOCK_LOST', reason: 'taken' };
    // It finds out when it is to be extended.
    await Promise.all([
      expect(lost).rejects.toMatchObject({ ...reason, result: reason }),
      jest.advanceTimersByTimeAsync(20_000),
    ]);
  });

  it.each([
    ['fencingToken()', fencingToken],
    ['lockSignal()', lockSignal],
  ])('have a default that fails where no lock was taken: %s', (shown, evaluate) => {
    expect(evaluate).toThrow(`${shown} was evaluated, and gives no value`);
  });
});

describe('the signal option of @Fenced', () => {
  afterEach(closeAll);

  it.each<[string, Error]>([
    ['any', new Error('gone')],
    ['of this package', new LockBusyError(['other'], 5, undefined)],
  ])("ends the wait with the caller's reason as it is: an error, %s", async (_, reason) => {
    const nodes = createMemoryNodes(3);
    const seats = (await startModule({ providers: [Seats] }, { nodes })).get(Seats);
    const other = await occupy(nodes, 'seat:1');
    const caller = new AbortController();
    const calls = [seats.patient('1', caller.signal), seats.skipping('1', caller.signal)];
    const ended = Promise.allSettled(calls);
    const { message, stack } = reason;
    caller.abort(reason);
    expect(await ended).toEqual(calls.map(() => ({ status: 'rejected', reason })));
    expect([reason.message, reason.stack]).toEqual([message, stack]);
    await other.release();
    expect(await seats.patient('1')).toBe('1');
  });

  it('is named with the method when it throws, and nothing is locked', async () => {
    class Broken {
      @Fenced('x', { signal: () => (undefined as never as { of: AbortSignal }).of })
      async work(): Promise<void> {}
    }
    const module = await startModule({ providers: [Broken] });
    await expect(module.get(Broken).work()).rejects.toMatchObject({
      message: expect.stringMatching(/^Broken\.work: the option 'signal' threw TypeError: /),
      cause: expect.any(TypeError),
    });
    expect(await module.get(LockService).inspect('x')).toMatchObject({ holder: null });
  });
});
