import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../../lib/core/lock.ts';
import { processFactory, rejection } from './support/cluster.ts';

const newProcess = processFactory();
const CLOSED = { code: 'REDLOCK_CLOSED' };
const OOM = { error: "OOM command not allowed when used memory > 'maxmemory'." };

describe('close', () => {
  it('refuses new locks, and is idempotent', async () => {
    const { cluster, redlock, node } = await newProcess();
    expect(redlock.close()).toBe(redlock.close());
    await cluster.settle(redlock.close());
    await expect(redlock.acquire('a')).rejects.toMatchObject(CLOSED);
    await expect(redlock.tryAcquire('a')).rejects.toMatchObject(CLOSED);
    await expect(redlock.withLock('a', () => 1)).rejects.toMatchObject(CLOSED);
    expect(node.asked('acquire')).toEqual([]);
  });

  it('rejects all who wait, in line or behind a holder, and leaves no key behind', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    cluster.occupy('a', [0, 1], 60_000);
    const waiting = [redlock.acquire('a'), redlock.acquire('a'), redlock.acquire(['a', 'b'])];
    const rejected = Promise.all(waiting.map(rejection));
    cluster.servers[2]?.kill();
    await cluster.advance(700);
    await cluster.settle(redlock.close());
    expect(await cluster.settle(rejected)).toMatchObject([CLOSED, CLOSED, CLOSED]);
    expect([cluster.holders('a'), cluster.holders('b')]).toEqual([2, 0]);
  });

  it.each([0, 2_000])(
    'gives away no lock and leaves no key whenever it comes after the deciding vote, minHold %i ms',
    async (minHold) => {
      for (let ticks = 0; ticks <= 12; ticks += 1) {
        const { cluster, redlock, node } = await newProcess({ minHold }, 1);
        let closed: Promise<void> | undefined;
        const acquire = node.acquire.bind(node);
        node.acquire = (request, settle) =>
          acquire(request, (reply) => {
            settle(reply);
            let afterVote = Promise.resolve();
            for (let tick = 0; tick < ticks; tick += 1) afterVote = afterVote.then(() => undefined);
            void afterVote.then(() => (closed = redlock.close()));
          });
        const outcome = redlock.acquire('a').catch(() => undefined);
        await cluster.advance(10);
        await cluster.settle(closed!);
        const lock = await cluster.settle<Lock | undefined>(outcome);
        expect([ticks, lock?.isHeld ?? false]).toEqual([ticks, false]);
        await cluster.advance(50);
        // Work may have run when the lock had reached its caller.
        const isKept = lock !== undefined && minHold > 0;
        expect([ticks, cluster.holders('a')]).toEqual([ticks, isKept ? 1 : 0]);
      }
    },
  );

  it('keeps for minHold what it ends before that has passed, and releases at once what was held for longer', async () => {
    const { cluster, redlock } = await newProcess({ minHold: '2s' });
    const old = await cluster.settle(redlock.acquire('old'));
    await cluster.advance(2_100);
    const young = await cluster.settle(redlock.acquire('young'));
    await cluster.settle(redlock.close());
    expect([old, young].map(({ signal }) => signal.aborted)).toEqual([true, true]);
    expect([cluster.holders('old'), cluster.holders('young')]).toEqual([0, 3]);
    await cluster.advance(1_900);
    expect(cluster.holders('young')).toBe(3);
    await cluster.advance(1_200);
    expect(cluster.holders('young')).toBe(0);
  });
});

describe('drain', () => {
  it('lets sections that it waits for take further locks, until its limit', async () => {
    const { cluster, redlock } = await newProcess();
    cluster.occupy('taken', [0, 1, 2], 60_000);
    cluster.occupy('later', [0, 1, 2], 1_000);
    const nested = (outer: string, inner: string, afterMs = 50) =>
      redlock.withLock(outer, async () => {
        await new Promise<void>((resolve) => void cluster.environment.timers.set(resolve, afterMs));
        return redlock.withLock(inner, () => 'done', { wait: '1m' });
      });
    const [waits, ends] = [nested('a', 'taken'), nested('b', 'free')];
    const waited = nested('d', 'later', 0);
    const refused = rejection(waits);
    await cluster.advance(40);
    const drained = redlock.drain(2_000);
    expect(await cluster.settle(Promise.all([ends, waited]))).toEqual(['done', 'done']);
    await expect(redlock.acquire('c')).rejects.toMatchObject(CLOSED);
    await cluster.settle(drained);
    expect(await cluster.settle(refused)).toMatchObject({ ...CLOSED, keys: ['taken'] });
    expect(['a', 'b', 'free'].map((key) => cluster.holders(key))).toEqual([0, 0, 0]);
  });
});

describe('ready', () => {
  it('is true once a quorum has joined, and false after its time', async () => {
    const { cluster, redlock } = await newProcess({ open: false });
    const [first, second] = cluster.servers;
    for (const server of [first, second]) server?.kill();
    redlock.open();
    expect(await cluster.settle(redlock.ready(500))).toBe(false);
    const ready = redlock.ready(60_000);
    second?.restart({ keepData: true });
    const startedAtMs = cluster.nowMs;
    expect(await cluster.settle(ready)).toBe(true);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(50);
    expect(await redlock.ready(0)).toBe(true);
  });

  it('is false at once while it drains and after it was closed, also for those that wait', async () => {
    const { cluster, redlock } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('a'));
    for (const server of cluster.servers) server.kill();
    await cluster.advance(10);
    const startedAtMs = cluster.nowMs;
    const pending = redlock.ready(60_000);
    const draining = redlock.drain(2_000);
    expect([await pending, await redlock.ready(60_000)]).toEqual([false, false]);
    await cluster.settle(Promise.all([lock.release(), draining]));
    expect(await redlock.ready(60_000)).toBe(false);
    await cluster.settle(redlock.close());
    expect(await redlock.ready(60_000)).toBe(false);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(5_000);
  });

  it.each(['grants nothing, though it extends held locks', 'is frozen'])(
    'is false after a try without a quorum, while a majority %s',
    async (fault) => {
      const { cluster, redlock, nodes } = await newProcess();
      for (const { server } of fault === 'is frozen' ? nodes.slice(1) : []) server.freeze();
      for (const node of nodes.slice(1)) {
        // A server without memory says so itself, and not only to votes.
        for (const command of ['acquire', 'examine'] as const)
          node.failNext(OOM, { command, times: Number.POSITIVE_INFINITY });
      }
      expect(await redlock.ready(0)).toBe(true);
      await cluster.failure(redlock.acquire('a', { wait: 0 }));
      // A node that refused a vote is asked why, which takes a round trip.
      await cluster.advance(2);
      expect(await cluster.settle(redlock.ready(500))).toBe(false);
      const ready = redlock.ready(60_000);
      for (const node of nodes) node.clearFaults();
      for (const { server } of nodes) server.resume();
      const startedAtMs = cluster.nowMs;
      await cluster.settle(redlock.acquire('key'));
      expect([await ready, cluster.nowMs - startedAtMs < 500]).toEqual([true, true]);
    },
  );

  it.each(['is silent', 'refuses writes'])(
    'is false for as long as a majority %s, and true soon after, without a further call',
    async (fault) => {
      const { cluster, redlock, nodes } = await newProcess();
      if (fault === 'is silent') for (const { server } of nodes.slice(1)) server.freeze();
      for (const node of fault === 'refuses writes' ? nodes.slice(1) : []) {
        for (const command of ['acquire', 'examine'] as const)
          node.failNext(OOM, { command, times: Number.POSITIVE_INFINITY });
      }
      await cluster.failure(redlock.acquire('a', { wait: 0 }));
      for (let second = 0; second < 60; second += 1) {
        await cluster.advance(1_000);
        expect([second, redlock.status()]).toMatchObject([
          second,
          { ready: false, votesMissing: 1 },
        ]);
      }
      const ready = redlock.ready(2_000);
      for (const node of nodes) node.clearFaults();
      for (const { server } of nodes) server.resume();
      expect(await cluster.settle(ready)).toBe(true);
      await cluster.advance(2_000);
      expect(redlock.status()).toMatchObject({ ready: true, degraded: false, votesMissing: 0 });
    },
  );

  it('is true again, where nodes do not say why they refused votes, ten seconds after the last', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    for (const node of nodes) node.failNext(OOM, { command: 'acquire', times: 9 });
    for (let call = 0; call < 3; call += 1)
      await cluster.failure(redlock.acquire('a', { wait: 0 }));
    const ready = redlock.ready(20_000);
    await cluster.advance(9_000);
    expect(redlock.status()).toMatchObject({ ready: false, votesMissing: 2 });
    expect(await cluster.settle(ready)).toBe(true);
  });

  it('is false until a quorum is out of its restart guard, and true then without a call', async () => {
    const { cluster, redlock } = await newProcess({ restartGuard: true });
    await cluster.advance(redlock.votesInMs);
    expect(await redlock.ready(0)).toBe(true);
    for (const server of cluster.servers.slice(1)) server.restart({ keepData: false });
    await cluster.advance(100);
    expect(redlock.votesInMs).toBeGreaterThan(2_000);
    expect(await cluster.settle(redlock.ready(500))).toBe(false);
    expect(redlock.status()).toMatchObject({ ready: false, votesMissing: 1 });
    expect(await cluster.settle(redlock.ready(10_000))).toBe(true);
    expect(redlock.votesInMs).toBe(0);
  });

  it('is true under contention', async () => {
    const { cluster, redlock } = await newProcess({ wait: 0 });
    cluster.occupy('a', [0, 1, 2], 60_000);
    cluster.occupy('split', [0], 60_000, 'one');
    cluster.occupy('split', [1], 60_000, 'two');
    for (const key of ['a', 'split']) {
      await cluster.failure(redlock.acquire(key));
      expect([key, await redlock.ready(0)]).toEqual([key, true]);
    }
  });
});
