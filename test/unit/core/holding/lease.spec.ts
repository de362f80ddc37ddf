import { describe, expect, it } from '@jest/globals';
import { LockLostError, QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import { clusterFactory, processFactory } from '../support/cluster.ts';
import type { LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();

/** When the first node was asked for an extension. */
const extensionTimes = ({ nodes }: LockProcess) =>
  nodes[0]!.asked('extend').map(({ atMs }) => atMs);

describe('extension', () => {
  it('comes at a third of the ttl, again and again', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 3_000 });
    const startedAtMs = cluster.nowMs;
    const lock = await cluster.settle(process.redlock.acquire('a'));
    await cluster.advance(30_000);
    expect(lock.isHeld).toBe(true);
    const times = [startedAtMs, ...extensionTimes(process)];
    const gaps = times.slice(1).map((atMs, index) => atMs - times[index]!);
    // Never later than a third, and only a little earlier, because locks share timers.
    expect(Math.max(...gaps)).toBeLessThanOrEqual(1_000);
    expect(Math.min(...gaps)).toBeGreaterThan(900);
    expect(process.received('extended')).toHaveLength(times.length - 1);
  });

  it.each([100, 101, 150, 333, 1_000, 1_250, 10_000])(
    'has no hot loop with a ttl of %i ms',
    async (ttl) => {
      const cluster = await newCluster();
      const process = await cluster.process({ ttl });
      const lock = await cluster.settle(process.redlock.acquire('a'));
      await cluster.advance(ttl * 10);
      expect(lock.isHeld).toBe(true);
      expect(extensionTimes(process).length).toBeLessThanOrEqual(33);
      // And while every extension fails at once.
      for (const server of cluster.servers) server.kill();
      const before = extensionTimes(process).length;
      await cluster.advance(ttl);
      expect(lock.isHeld).toBe(false);
      expect(extensionTimes(process).length - before).toBeLessThan(30);
    },
  );

  it('that fails is retried with pauses while time is left: neither lost nor renewed', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 3_000 });
    const lock = await cluster.settle(process.redlock.acquire('a'));
    for (const server of cluster.servers) server.freeze();
    await cluster.advance(1_400);
    const { remainingMs } = lock;
    expect(process.received('extension-failed').length).toBeGreaterThan(0);
    expect(lock.signal.aborted).toBe(false);
    expect(lock.remainingMs).toBe(remainingMs);
    for (const server of cluster.servers) server.resume();
    await cluster.advance(600);
    expect(lock.remainingMs).toBeGreaterThan(remainingMs);
    await cluster.advance(10_000);
    expect(lock.isHeld).toBe(true);
    const gaps = extensionTimes(process).map((atMs, index, all) => atMs - (all[index - 1] ?? 0));
    for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(150);
  });

  it('that fails is retried soon, and by chance, so that holders do not come all at once', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 10_000 });
    await cluster.settle(process.redlock.acquire('a'));
    for (const node of process.nodes)
      node.failNext({ error: 'OOM command not allowed' }, { command: 'extend', times: 100 });
    await cluster.advance(9_000);
    // Refused at once, so a gap is a pause: half a node timeout to a whole one.
    const times = extensionTimes(process);
    const gaps = times.slice(1).map((atMs, index) => atMs - times[index]!);
    expect(gaps.length).toBeGreaterThan(5);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(510);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(240);
    expect(Math.max(...gaps) - Math.min(...gaps)).toBeGreaterThan(30);
  });

  it('needs a quorum only, and repairs a node that restarted', async () => {
    const { cluster, redlock } = await newProcess({ ttl: 3_000 });
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[0]?.kill();
    await cluster.advance(10_000);
    expect(lock.isHeld).toBe(true);
    cluster.servers[0]?.restart({ keepData: false });
    await cluster.advance(1_500);
    expect(cluster.holdersOf('a')).toEqual(cluster.servers.map(() => lock.token.holder));
  });

  it('asks a node in quarantine again as soon as that ends', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 9_000, restartGuard: true, wait: 0 });
    await cluster.advance(9_000);
    const lock = await cluster.settle(process.redlock.acquire('a'));
    cluster.servers[0]?.restart({ keepData: false });
    const restartedAtMs = cluster.nowMs;
    await cluster.advance(8_900);
    expect(cluster.holdersOf('a')[0]).toBeUndefined();
    await cluster.advance(250);
    expect(cluster.holdersOf('a')[0]).toBe(lock.token.holder);
    const last = process.nodes[0]!.asked('extend').at(-1)!.atMs;
    expect(last - restartedAtMs).toBeGreaterThan(8_999);
    // Nor are the others, which keep the lock, asked later or more often for that.
    const times = extensionTimes(process);
    expect(times).toHaveLength(4);
    for (const [index, atMs] of times.entries())
      expect(atMs - (times[index - 1] ?? restartedAtMs)).toBeLessThanOrEqual(3_000);
  });

  it('asks the first of several nodes in quarantine as soon as its own has ended', async () => {
    const { cluster, redlock } = await newProcess({ ttl: 9_000, restartGuard: true, wait: 0 }, 5);
    await cluster.advance(9_000);
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[1]?.restart({ keepData: false });
    await cluster.advance(1_500);
    cluster.servers[0]?.restart({ keepData: false });
    await cluster.advance(7_700);
    expect(cluster.holdersOf('a').slice(0, 2)).toEqual([undefined, lock.token.holder]);
  });

  it('can be turned off: the lock ends after one ttl', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 3_000, extend: false });
    const lock = await cluster.settle(process.redlock.acquire('a'));
    await cluster.advance(2_900);
    expect(lock.isHeld).toBe(true);
    await cluster.advance(100);
    expect(lock.isHeld).toBe(false);
    expect(lock.signal.reason).toMatchObject({ reason: 'expired' });
    expect(extensionTimes(process)).toEqual([]);
  });

  it('never outlives the release, also when one was under way', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 3_000, latencyMs: 20 });
    const lock = await cluster.settle(process.redlock.acquire('a'));
    while (extensionTimes(process).length === 0) await cluster.advance(1);
    await cluster.settle(lock.release());
    await cluster.advance(20_000);
    expect(process.liveTimers).toBe(0);
    expect(extensionTimes(process)).toHaveLength(1);
    expect(cluster.holders('a')).toBe(0);
    expect(lock.signal.aborted).toBe(false);
    expect(process.received('extended')).toEqual([]);
  });
});

describe('extend()', () => {
  it('gives the full ttl again, from before it was sent', async () => {
    const { cluster, redlock } = await newProcess({ ttl: 3_000, extend: false, latencyMs: 40 });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(2_000);
    await cluster.settle(lock.extend());
    expect(lock.remainingMs).toBeCloseTo(3_000 - 32 - 40, 6);
    await cluster.advance(2_900);
    expect(lock.isHeld).toBe(true);
  });

  it('without a quorum rejects, and the old validity stands', async () => {
    const { cluster, redlock, received } = await newProcess({
      ttl: 3_000,
      nodeTimeout: 1_000,
      extend: false,
    });
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[0]?.freeze();
    cluster.servers[1]?.kill();
    await cluster.advance(10);
    const error = await cluster.failure(lock.extend());
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    expect((error as QuorumUnavailableError).causes).toMatchObject([
      { reason: 'timeout' },
      { reason: 'unreachable' },
    ]);
    expect(lock.isHeld).toBe(true);
    // That was no answer of a quorum, so it says nothing about how slow one is.
    expect(received('slow-quorum')).toEqual([]);
  });

  it('of a lost lock rejects with the loss', async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(4_000);
    await expect(lock.extend()).rejects.toBeInstanceOf(LockLostError);
  });

  it('of a released lock is wrong use', async () => {
    const { cluster, redlock } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(lock.release());
    await expect(lock.extend()).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    expect(() => lock.ensure()).toThrow(/used after its release/);
  });
});

describe('loss', () => {
  it('is told before validity ends, although no node answers any more', async () => {
    const { cluster, redlock, received } = await newProcess({ ttl: 3_000 });
    const lock = await cluster.settle(redlock.acquire('a'));
    const validUntilMs = cluster.nowMs + lock.remainingMs;
    let toldAtMs = Number.POSITIVE_INFINITY;
    lock.signal.addEventListener('abort', () => (toldAtMs = cluster.nowMs));
    for (const server of cluster.servers) server.freeze();
    await cluster.advance(10_000);
    expect(toldAtMs).toBeLessThan(validUntilMs);
    expect(toldAtMs).toBeGreaterThan(validUntilMs - 100);
    expect(lock.signal.reason).toMatchObject({ name: 'LockLostError', reason: 'expired' });
    expect(received('lost')).toMatchObject([{ keys: ['a'], token: lock.token.value }]);
  });

  it('is told at once when so many nodes lost it that no quorum is left', async () => {
    const { cluster, redlock, received } = await newProcess({ ttl: 9_000 }, 5);
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.advance(3_100);
    expect(lock.isHeld).toBe(true);
    cluster.occupy('a', [2], 60_000);
    await cluster.advance(3_100);
    expect(lock.signal.reason).toMatchObject({ reason: 'taken' });
    const { causes } = lock.signal.reason as LockLostError;
    expect(causes.filter(({ reason }) => reason === 'lost')).toHaveLength(3);
    expect(received('lost')).toHaveLength(1);
  });

  it('is not concluded from nodes that are unjoined, in quarantine, down or silent', async () => {
    const { cluster, redlock } = await newProcess({ ttl: 9_000, restartGuard: true, wait: 0 }, 5);
    await cluster.advance(9_000);
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[0]?.kill();
    cluster.servers[1]?.freeze();
    cluster.servers[2]?.restart({ keepData: false });
    cluster.servers[3]?.flush();
    await cluster.advance(3_500);
    expect(lock.isHeld).toBe(true);
    expect(lock.signal.aborted).toBe(false);
  });

  it('releases on every node at once, for the next holder', async () => {
    const { cluster, redlock, nodes } = await newProcess({ ttl: 9_000 });
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.advance(3_010);
    expect(lock.isHeld).toBe(false);
    expect(
      nodes.map((node) => node.asked('release').map(({ request }) => request.granted)),
    ).toEqual([[true], [true], [true]]);
    expect(cluster.holdersOf('a')).toEqual(['foreign', 'foreign', undefined]);
  });

  it('is never undone by a late answer', async () => {
    const cluster = await newCluster();
    const process = await cluster.process({ ttl: 3_000, nodeTimeout: 1_000, latencyMs: 20 });
    const { redlock, received } = process;
    const lock = await cluster.settle(redlock.acquire('a'));
    while (extensionTimes(process).length < 2) await cluster.advance(1);
    await cluster.advance(15);
    // Nothing runs until the old validity is over; then the answer, which would give a new one, is heard first.
    cluster.environment.skip(lock.remainingMs + 100);
    expect(lock.isHeld).toBe(false);
    await cluster.advance(1_000);
    expect(lock.isHeld).toBe(false);
    expect(lock.signal.aborted).toBe(true);
    expect(received('lost')).toHaveLength(1);
  });

  it('isHeld, remainingMs and ensure are right although every timer is late', async () => {
    const { cluster, redlock } = await newProcess({ ttl: 3_000 });
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.environment.skip(2_900);
    expect(lock.isHeld).toBe(true);
    expect(lock.remainingMs).toBeCloseTo(66, 6);
    expect(() => lock.ensure(66)).not.toThrow();
    expect(() => lock.ensure(67)).toThrow(/less validity is left than the next step needs/);
    cluster.environment.skip(67);
    expect([lock.isHeld, lock.remainingMs]).toEqual([false, 0]);
    expect(() => lock.ensure()).toThrow(LockLostError);
    expect(lock.signal.aborted).toBe(true);
  });

  it('ensure refuses what is not a number', async () => {
    const { cluster, redlock } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('a'));
    expect(() => lock.ensure(Number.NaN)).toThrow(LockLostError);
    expect(lock.isHeld).toBe(true);
  });

  it('a signal that is looked at only afterwards is aborted', async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(4_000);
    expect(lock.signal.aborted).toBe(true);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('is not caused by a step of the wall clock', async () => {
    const { cluster, redlock } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('a'));
    const { remainingMs } = lock;
    // Ours only: the servers have clocks of their own.
    for (const server of cluster.servers) server.setClockOffset(-10_000);
    cluster.environment.shiftWallClock(10_000);
    expect(lock.remainingMs).toBe(remainingMs);
    await cluster.advance(10_000);
    expect(lock.isHeld).toBe(true);
  });
});
