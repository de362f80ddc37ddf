import 'reflect-metadata';
import { createHook } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencingToken, LockService } from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';

const CALLS = 20;
/** The method's own promise, and that of the interceptor which waits for it. */
const OWN_PROMISES = 2;

@Injectable()
class Work {
  @Fenced('{0}', { ttl: '10s' })
  async run(_key: string, @FencingToken() token?: FencingToken): Promise<number> {
    return token!.value;
  }

  @Fenced('{0}', { release: 'confirmed', nested: 'join' })
  async confirmed(_key: string, @FencingToken() token?: FencingToken): Promise<number> {
    return token!.value;
  }

  @Fenced('{0}', { onBusy: 'skip' })
  async skip(_key: string): Promise<void> {}
}

describe('what @Fenced costs beside locks.withLock', () => {
  afterEach(closeAll);

  async function start() {
    const module = await startModule({ providers: [Work] });
    const [locks, work] = [module.get(LockService), module.get(Work)];
    const withLock = (key: string) => locks.withLock(key, (lock) => lock.token.value);
    return { locks, withLock, work, fenced: (key: string) => work.run(key) };
  }

  /** Promises that one call makes, on average. */
  async function promisesOf(call: (key: string) => Promise<unknown>): Promise<number> {
    await call('first');
    let count = 0;
    const hook = createHook({ init: (_id, type) => void (type === 'PROMISE' && (count += 1)) });
    hook.enable();
    for (let index = 0; index < CALLS; index += 1) await call('counted');
    hook.disable();
    return count / CALLS;
  }

  it('makes two promises more, alone and inside of its own lock', async () => {
    const { locks, work } = await start();
    // A release that no call waits for may leave with the next vote, and each message in memory is two promises.
    const withLock = (key: string) =>
      locks.withLock(key, (lock) => lock.token.value, { release: 'confirmed', nested: 'join' });
    const fenced = (key: string) => work.confirmed(key);
    const [alone, decorated] = [await promisesOf(withLock), await promisesOf(fenced)];
    expect(alone).toBeGreaterThan(OWN_PROMISES);
    expect(Math.round(decorated - alone)).toBe(OWN_PROMISES);
    await locks.withLock(['counted', 'first'], async () => {
      const [joined, decoratedJoined] = [await promisesOf(withLock), await promisesOf(fenced)];
      expect(decoratedJoined - joined).toBe(OWN_PROMISES);
    });
  });

  it('hands the lock one frozen object of options at every call, with durations in milliseconds', async () => {
    const { locks, work, fenced } = await start();
    const given: unknown[] = [];
    const original = locks.withLock.bind(locks);
    locks.withLock = (keys, run, options) => (given.push(options), original(keys, run, options));
    await fenced('a');
    await fenced('b');
    expect(given).toEqual([{ ttl: 10_000 }, { ttl: 10_000 }]);
    expect(given[0]).toBe(given[1]);
    expect(Object.isFrozen(given[0])).toBe(true);
    await work.skip('c');
    expect(given[2]).toEqual({ wait: 0, release: 'confirmed' });
  });
});
