import { describe, expect, it } from '@jest/globals';
import { clusterFactory, rejection } from '../unit/core/support/cluster.ts';
import { eventsOf } from './support.ts';

const newCluster = clusterFactory();

describe('a suspend of the operating system', () => {
  it('of more than the validity loses the lock, which every getter says at once', async () => {
    const cluster = await newCluster();
    const { redlock, events } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    const { signal } = lock;
    await cluster.advance(100);
    cluster.environment.suspend(20_000);
    expect([lock.isHeld, lock.remainingMs]).toEqual([false, 0]);
    const lost = expect.objectContaining({ code: 'LOCK_LOST', reason: 'suspended' });
    expect(await rejection(lock.extend())).toEqual(lost);
    await cluster.advance(10);
    expect(signal.reason).toEqual(lost);
    expect(eventsOf(events, 'lost').map(({ error }) => error)).toEqual([lost]);
  });
});

describe('a step of the wall clock alone', () => {
  it('costs no lock, but extends all of them at once, which proves that they are held', async () => {
    const cluster = await newCluster();
    const { redlock, events } = await cluster.process({ ttl: 60_000 });
    const keys = ['a', 'b', 'c'];
    const locks = await cluster.settle(Promise.all(keys.map((key) => redlock.acquire(key))));
    await cluster.advance(100);
    expect(eventsOf(events, 'extended')).toEqual([]);
    cluster.environment.shiftWallClock(5_000);
    expect(locks[0]!.isHeld).toBe(true);
    await cluster.advance(50);
    const extended = eventsOf(events, 'extended').flatMap((event) => event.keys);
    expect(new Set(extended)).toEqual(new Set(keys));
    expect(locks.map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
  });
});
