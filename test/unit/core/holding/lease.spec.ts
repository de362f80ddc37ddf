import { describe, expect, it } from '@jest/globals';
import { LockLostError, QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { processFactory, rejection } from '../support/cluster.ts';
import type { ProcessOptions } from '../support/cluster.ts';

const newProcess = processFactory();

/** A process that holds `a`; `extensionTimes` are when its first node was asked for an extension. */
async function holding(options: ProcessOptions = {}, size = 3) {
  const process = await newProcess(options, size);
  const { cluster, redlock, node } = process;
  // The restart guard has passed.
  if (options.restartGuard === true) await cluster.advance(9_000);
  const startedAtMs = cluster.nowMs;
  const lock = await cluster.settle(redlock.acquire('a'));
  const extensionTimes = () => node.asked('extend').map(({ atMs }) => atMs);
  return Object.assign(process, { lock, startedAtMs, extensionTimes });
}

const gapsOf = (times: readonly number[]) =>
  times.slice(1).map((atMs, index) => atMs - times[index]!);

describe('an extension', () => {
  it('comes at a third of the ttl, again and again', async () => {
    const { cluster, lock, startedAtMs, extensionTimes, received } = await holding();
    await cluster.advance(30_000);
    const gaps = gapsOf([startedAtMs, ...extensionTimes()]);
    // Never later than a third, and only a little earlier, because locks share timers.
    expect([Math.max(...gaps) <= 1_000, Math.min(...gaps) > 900]).toEqual([true, true]);
    expect([lock.isHeld, received('extended').length]).toEqual([true, gaps.length]);
  });

  it.each([100, 333, 10_000])(
    'never runs in a hot loop, with a ttl of %i ms, also while every one fails at once',
    async (ttl) => {
      const { cluster, lock, extensionTimes } = await holding({ ttl });
      await cluster.advance(ttl * 10);
      const before = extensionTimes().length;
      expect([lock.isHeld, before <= 33]).toEqual([true, true]);
      for (const server of cluster.servers) server.kill();
      await cluster.advance(ttl);
      expect([lock.isHeld, extensionTimes().length - before < 30]).toEqual([false, true]);
    },
  );

  it('that fails is repeated with pauses while time is left: the lock is neither lost nor renewed', async () => {
    const { cluster, lock, extensionTimes, received } = await holding();
    for (const server of cluster.servers) server.freeze();
    await cluster.advance(1_400);
    const { remainingMs } = lock;
    expect([received('extension-failed').length > 0, lock.signal.aborted]).toEqual([true, false]);
    for (const server of cluster.servers) server.resume();
    await cluster.advance(600);
    expect(lock.remainingMs).toBeGreaterThan(remainingMs);
    await cluster.advance(10_000);
    expect([lock.isHeld, Math.min(...gapsOf(extensionTimes())) >= 150]).toEqual([true, true]);
  });

  it('is not put off by messages that the lock may be lost, however many come', async () => {
    const { cluster, redlock, lock, extensionTimes } = await holding();
    // It listens from now on.
    await cluster.settle(redlock.withLock('b', () => undefined, { onBusy: 'replace' }));
    await cluster.advance(20);
    const channel = `lock:#turns:${lock.token.holder.slice(0, 8)}`;
    const before = extensionTimes().length;
    for (let messages = 0; messages < 200; messages += 1) {
      cluster.servers[0]!.call('PUBLISH', channel, '-1 lock:a');
      await cluster.advance(0.5);
    }
    expect(extensionTimes().length).toBeGreaterThan(before);
  });

  it('can be turned off: then the lock ends after one ttl, which a signal that is read later says, too', async () => {
    const { cluster, lock, extensionTimes } = await holding({ extend: false });
    await cluster.advance(2_900);
    expect(lock.isHeld).toBe(true);
    await cluster.advance(100);
    expect(lock.signal.reason).toMatchObject({ reason: 'expired' });
    expect([lock.isHeld, extensionTimes()]).toEqual([false, []]);
  });
});

describe('a server that took the place of another one in a failover', () => {
  /** Whether a lock of 6 s is held 8 s after a failover that came with its grant. */
  const outlives = async (failover: { maxLag: number } | undefined) => {
    const { cluster, redlock } = await newProcess(
      { ttl: 6_000, restartGuard: undefined, failover },
      1,
    );
    await cluster.advance(15_000);
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[0]!.restart({ keepData: true });
    await cluster.advance(8_000);
    return lock.isHeld;
  };

  it('extends a lock that the other one can no longer give away', async () => {
    expect(await outlives({ maxLag: 0 })).toBe(true);
  });

  it('extends none that the other one may give away, while it still may write', async () => {
    expect(await outlives({ maxLag: 3_000 })).toBe(false);
  });
});

describe('extend()', () => {
  it('gives the full ttl again, from before it was sent', async () => {
    const { cluster, lock } = await holding({ extend: false, latencyMs: 40 });
    await cluster.advance(2_000);
    await cluster.settle(lock.extend());
    expect(lock.remainingMs).toBeCloseTo(3_000 - 32 - 40, 6);
    await cluster.advance(2_900);
    expect(lock.isHeld).toBe(true);
  });

  it('rejects without a quorum, and the old validity stands', async () => {
    const { cluster, lock, received } = await holding({ nodeTimeout: 1_000, extend: false });
    cluster.servers[0]?.freeze();
    cluster.servers[1]?.kill();
    await cluster.advance(10);
    const error = await cluster.failure(lock.extend());
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    expect(error).toMatchObject({ causes: [{ reason: 'timeout' }, { reason: 'unreachable' }] });
    expect(lock.isHeld).toBe(true);
    // The failure was no answer of a quorum, so it says nothing about how slow one is.
    expect(received('slow-quorum')).toEqual([]);
  });

  it('rejects with the loss of a lost lock, and is wrong use of a released one', async () => {
    const { cluster, lock, redlock } = await holding({ extend: false });
    await cluster.advance(4_000);
    await expect(lock.extend()).rejects.toBeInstanceOf(LockLostError);
    const released = await cluster.settle(redlock.acquire('b'));
    await cluster.settle(released.release());
    await expect(released.extend()).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    expect(() => released.ensure()).toThrow(
      'Lock "b" was used after its release. Use it inside the locked work, or acquire the lock again.',
    );
    await cluster.settle(lock.release());
    expect(() => lock.ensure()).toThrow(LockLostError);
  });
});

describe('a loss', () => {
  it.each([
    ['never before the validity has ended, in which the work may stop', false],
    ['as soon as the holder says that it has stopped', true],
  ])('lets others have the keys %s', async (_, releases) => {
    const { cluster, lock } = await holding({ ttl: 10_000, extend: false });
    const validUntilMs = cluster.nowMs + lock.remainingMs;
    let abortedAtMs = Infinity;
    lock.signal.addEventListener('abort', () => {
      abortedAtMs = cluster.nowMs;
      if (releases) void lock.release();
    });
    const { redlock: other } = await cluster.process();
    await cluster.settle(other.acquire('a', { wait: '1m' }));
    expect(abortedAtMs).toBeLessThanOrEqual(validUntilMs - 49);
    expect(cluster.nowMs < validUntilMs).toBe(releases);
    expect(Math.abs(cluster.nowMs - validUntilMs)).toBeLessThan(100);
  });

  it.each([
    ['when its validity is over', 150],
    ['when the section has ended', 50],
  ])('is released once, %s, where a section inside outlives the handle', async (_, workMs) => {
    const { cluster, redlock, node } = await newProcess({ ttl: 20_000, extend: false });
    const work = () => new Promise<void>((done) => cluster.environment.timers.set(done, workMs));
    const notified = ({ signal }: Lock) =>
      new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    let leftMs = 0;
    const outer = redlock.withLock('a', async (lock) => {
      leftMs = cluster.nowMs + lock.remainingMs;
      void rejection(
        redlock.withLock('a', (inner) => notified(inner).then(work), { nested: 'join' }),
      );
      await notified(lock);
      leftMs -= cluster.nowMs;
    });
    await cluster.settle(rejection(outer));
    await cluster.advance(Math.min(workMs, leftMs) - 5);
    expect(cluster.holders('a')).toBe(3);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
    await cluster.advance(500);
    expect(node.asked('release')).toHaveLength(1);
  });

  it('is known to isHeld, remainingMs and ensure although every timer is late', async () => {
    const { cluster, lock } = await holding();
    cluster.environment.skip(2_900);
    expect(lock.isHeld).toBe(true);
    expect(lock.remainingMs).toBeCloseTo(66, 6);
    expect(() => lock.ensure(66)).not.toThrow();
    expect(() => lock.ensure(67)).toThrow(/less time is left than the next step needs/);
    cluster.environment.skip(67);
    expect([lock.isHeld, lock.remainingMs]).toEqual([false, 0]);
    expect(lock.signal.aborted).toBe(false);
    expect(() => lock.ensure()).toThrow(LockLostError);
    expect(lock.signal.aborted).toBe(true);
  });

  it.each([['2s'], [Number.NaN], [null], [-1], [2_968.1]])(
    'asks ensure for what can be left, in milliseconds, and not for %p',
    async (asked) => {
      const { cluster, lock, redlock } = await holding();
      const refuses = (each: Lock) =>
        expect(() => each.ensure(asked as number)).toThrow(
          /takes milliseconds as a number from 0 to 2968, not /,
        );
      refuses(lock);
      await cluster.settle(
        redlock.withLock('b', () => redlock.withLock('b', refuses, { nested: 'join' })),
      );
      expect(lock.isHeld).toBe(true);
    },
  );
});

describe('a suspend of the system', () => {
  it.each([
    ['suspended', 2_000, 980],
    ['expired', 2_990, 20_000],
  ])(
    'loses the lock as %s after %i ms awake and %i ms asleep',
    async (reason, awakeMs, asleepMs) => {
      const { cluster, lock } = await holding({ extend: false });
      cluster.environment.skip(awakeMs);
      cluster.environment.suspend(asleepMs);
      expect(() => lock.ensure()).toThrow(expect.objectContaining({ reason }));
      await cluster.advance(1_000);
    },
  );
});
