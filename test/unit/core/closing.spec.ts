import { describe, expect, it } from '@jest/globals';
import { LockLostError, RedlockClosedError } from '../../../lib/core/errors.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import { clusterFactory, rejection } from './support/cluster.ts';

const newCluster = clusterFactory();

describe('close', () => {
  it('refuses new locks', async () => {
    const cluster = await newCluster();
    const { redlock, nodes } = await cluster.process();
    await cluster.settle(redlock.close());
    await expect(redlock.acquire('a')).rejects.toThrow(RedlockClosedError);
    await expect(redlock.tryAcquire('a')).rejects.toThrow(RedlockClosedError);
    await expect(redlock.withLock('a', () => 1)).rejects.toThrow(RedlockClosedError);
    expect(nodes[0]?.asked('acquire')).toEqual([]);
  });

  it('ends held locks as lost, and releases them on every node', async () => {
    const cluster = await newCluster();
    const { redlock, received } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    const { signal } = lock;
    await cluster.settle(redlock.close());
    expect(signal.reason).toMatchObject({ name: 'LockLostError', reason: 'closed' });
    expect(lock.isHeld).toBe(false);
    expect(received('lost')).toHaveLength(1);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });

  it('rejects whoever waits, in line or behind a holder, and leaves no key behind', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ wait: '1m' });
    cluster.occupy('a', [0, 1], 60_000);
    const waiting = [redlock.acquire('a'), redlock.acquire('a'), redlock.acquire(['a', 'b'])];
    const rejected = Promise.all(waiting.map(rejection));
    await cluster.advance(100);
    await cluster.settle(redlock.close());
    for (const error of await cluster.settle(rejected))
      expect(error).toBeInstanceOf(RedlockClosedError);
    await cluster.advance(10);
    expect(cluster.holdersOf('a')).toEqual(['foreign', 'foreign', undefined]);
    expect(cluster.holders('b')).toBe(0);
  });

  it('during a vote leaves no key behind', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const rejected = rejection(redlock.acquire('a'));
    await cluster.advance(1.5);
    expect(cluster.holders('a')).toBe(3);
    await cluster.settle(redlock.close());
    expect(await rejected).toBeInstanceOf(RedlockClosedError);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });

  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12])(
    'gives away no lock and leaves no key when it comes %i ticks after the deciding vote',
    async (ticks) => {
      const cluster = await newCluster(1);
      const { redlock, nodes } = await cluster.process();
      let closed: Promise<void> | undefined;
      const acquire = nodes[0]!.acquire.bind(nodes[0]);
      nodes[0]!.acquire = (request, settle) =>
        acquire(request, (reply) => {
          settle(reply);
          let afterVote = Promise.resolve();
          for (let tick = 0; tick < ticks; tick += 1) afterVote = afterVote.then(() => undefined);
          void afterVote.then(() => (closed = redlock.close()));
        });
      const outcome = redlock.acquire('a').then(
        (lock: Lock) => lock,
        (error: unknown) => error,
      );
      await cluster.advance(10);
      await cluster.settle(closed!);
      const result = await cluster.settle(outcome);
      const held = result instanceof Error ? false : (result as Lock).isHeld;
      expect(held).toBe(false);
      await cluster.advance(50);
      expect(cluster.holders('a')).toBe(0);
    },
  );

  it('is idempotent', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    expect(redlock.close()).toBe(redlock.close());
    await cluster.settle(redlock.close());
  });

  it('ends a wait for the nodes to be ready', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ open: false });
    for (const server of cluster.servers) server.kill();
    redlock.open();
    const ready = redlock.ready(60_000);
    await cluster.settle(redlock.close());
    const startedAtMs = cluster.nowMs;
    expect(await cluster.settle(ready)).toBe(false);
    expect(cluster.nowMs).toBe(startedAtMs);
  });

  it('leaves no timer of a lock that is kept for minHold, whose key then dies with its ttl', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ minHold: '2s' });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(lock.release());
    await cluster.settle(redlock.close());
    await cluster.advance(2_500);
    expect(cluster.holders('a')).toBe(3);
    await cluster.advance(600);
    expect(cluster.holders('a')).toBe(0);
  });

  it('leaves no timer while nodes are down, frozen, or were never there', async () => {
    const cluster = await newCluster(3);
    const { redlock } = await cluster.process({ wait: '1m' });
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[0]?.kill();
    cluster.servers[1]?.freeze();
    const rejected = rejection(redlock.acquire('b'));
    await cluster.advance(700);
    await cluster.settle(redlock.close());
    expect(lock.isHeld).toBe(false);
    expect(await cluster.settle(rejected)).toBeInstanceOf(RedlockClosedError);
  });
});

describe('drain', () => {
  it('refuses new locks at once, and lets held sections finish', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    let drained = false;
    const draining = redlock.drain(30_000).then(() => (drained = true));
    await expect(redlock.acquire('b')).rejects.toThrow(RedlockClosedError);
    // Longer than the ttl: it is still extended.
    await cluster.advance(10_000);
    expect([drained, lock.isHeld]).toEqual([false, true]);
    await cluster.settle(lock.release());
    await cluster.settle(draining);
    expect(lock.signal.aborted).toBe(false);
  });

  it('lets work inside a lock join that lock', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const work = redlock.withLock('a', async () => {
      await cluster.environment.flush();
      return redlock.withLock('a', () => 'joined');
    });
    await cluster.advance(3);
    const draining = redlock.drain(1_000);
    expect(await cluster.settle(work)).toBe('joined');
    await cluster.settle(draining);
  });

  it('ends as lost what takes longer than the limit', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.drain(5_000));
    expect(cluster.nowMs - startedAtMs).toBe(5_000);
    expect(() => lock.ensure()).toThrow(/the lock service was closed while it was held/);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('does not wait for a lock that was released and is only kept for minHold', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ minHold: '2s' });
    await cluster.settle((await cluster.settle(redlock.acquire('a'))).release());
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.drain(60_000));
    expect(cluster.nowMs).toBe(startedAtMs);
  });
});

describe('ready', () => {
  it('is true once a quorum has joined, and false after its time', async () => {
    const cluster = await newCluster(3);
    cluster.servers[0]?.kill();
    cluster.servers[1]?.kill();
    const { redlock } = await cluster.process({ open: false });
    redlock.open();
    expect(await cluster.settle(redlock.ready(500))).toBe(false);
    const ready = redlock.ready(60_000);
    cluster.servers[1]?.restart({ keepData: true });
    const startedAtMs = cluster.nowMs;
    expect(await cluster.settle(ready)).toBe(true);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(50);
    expect(await redlock.ready(0)).toBe(true);
  });
});
