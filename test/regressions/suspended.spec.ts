import { describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../lib/core/events.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { eventsOf } from './support.ts';

const newCluster = clusterFactory();

/** A process on a system that can be suspended: then its monotonic clock stands still, and the servers go on. */
async function suspendable(ttl: number) {
  const cluster = await newCluster();
  const { environment } = cluster;
  const { timers } = environment;
  const base = environment.process({ seed: 1 });
  let [suspendedMs, steppedMs] = [0, 0];
  const clock = {
    ...base.clock,
    wallAheadMs: () => 1_790_000_000_000 + suspendedMs + steppedMs,
    // In steps of 10 ms, as the system has it.
    sinceBootMs: () => Math.floor((base.clock.monotonicMs() + suspendedMs) / 10) * 10,
  };
  const events: LockEvent[] = [];
  const redlock = new Redlock(
    createMemoryNodes(cluster.servers, { latencyMs: 2, timers }),
    { ttl, restartGuard: false, onEvent: (event) => events.push(event) },
    { ...base, clock },
  );
  redlock.open();
  await cluster.advance(20);
  const lock = await cluster.settle(redlock.acquire('a'));
  return {
    cluster,
    redlock,
    events,
    lock,
    suspend: (ms: number) => {
      suspendedMs += ms;
      environment.shiftWallClock(ms);
    },
    step: (ms: number) => {
      steppedMs += ms;
      environment.shiftWallClock(ms);
    },
  };
}

describe('a suspend of the operating system', () => {
  it('of more than the validity loses the lock, which every getter says at once', async () => {
    const { cluster, redlock, events, lock, suspend } = await suspendable(3_000);
    const { signal } = lock;
    await cluster.advance(100);
    suspend(20_000);
    expect(lock.isHeld).toBe(false);
    expect(lock.remainingMs).toBe(0);
    const lost = expect.objectContaining({ code: 'LOCK_LOST', reason: 'suspended' });
    let thrown: unknown;
    try {
      lock.ensure();
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toEqual(lost);
    await cluster.advance(10);
    expect(signal.reason).toEqual(lost);
    expect(eventsOf(events, 'lost').map(({ error }) => error)).toEqual([lost]);
    await cluster.settle(redlock.close());
  });

  it('that the validity outlasts costs no lock', async () => {
    const { cluster, redlock, lock, suspend } = await suspendable(60_000);
    suspend(20_000);
    expect(lock.isHeld).toBe(true);
    await cluster.advance(100);
    expect(lock.isHeld).toBe(true);
    await cluster.settle(redlock.close());
  });
});

describe('a step of the wall clock alone', () => {
  it('costs no lock, but extends all of them at once, which proves that they are held', async () => {
    const { cluster, redlock, events, lock, step } = await suspendable(60_000);
    const others = await cluster.settle(Promise.all(['b', 'c'].map((key) => redlock.acquire(key))));
    await cluster.advance(100);
    expect(eventsOf(events, 'extended')).toEqual([]);
    step(5_000);
    expect(lock.isHeld).toBe(true);
    await cluster.advance(50);
    const extended = eventsOf(events, 'extended').map(({ keys }) => keys[0]);
    expect(extended.sort()).toEqual(['a', 'b', 'c']);
    expect([lock, ...others].map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
    await cluster.settle(redlock.close());
  });
});
