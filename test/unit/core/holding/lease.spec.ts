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

  it('goes with those of other locks that are due soon after it, and never much too early', async () => {
    const { cluster, redlock, extensionTimes } = await holding();
    const locks: Lock[] = [];
    for (let index = 0; index < 100; index += 1) {
      await cluster.advance(10);
      locks.push(await cluster.settle(redlock.acquire(`b${index}`)));
    }
    const before = extensionTimes().length;
    await cluster.advance(10_000);
    const times = extensionTimes().slice(before);
    const perLock = times.length / (locks.length + 1);
    // A third of the ttl is 1,000 ms; 1/32 of it is what an extension may come early, twice 1/64.
    expect([perLock >= 10, perLock <= 11.1]).toEqual([true, true]);
    expect(new Set(times).size).toBeLessThanOrEqual(11 * 22);
    expect(locks.every((each) => each.isHeld)).toBe(true);
  });

  it.each([100, 101, 150, 333, 1_000, 1_250, 10_000])(
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

  it('that fails is repeated soon, and by chance, so that holders do not come all at once', async () => {
    const { cluster, nodes, extensionTimes } = await holding({ ttl: 10_000 });
    for (const node of nodes) node.failNext({ error: 'OOM' }, { command: 'extend', times: 100 });
    await cluster.advance(9_000);
    // Refused at once, so a gap is a pause: half a node timeout to a whole one.
    const gaps = gapsOf(extensionTimes());
    const [shortest, longest] = [Math.min(...gaps), Math.max(...gaps)];
    expect([gaps.length > 5, shortest >= 240, longest <= 510]).toEqual([true, true, true]);
    expect(longest - shortest).toBeGreaterThan(30);
  });

  it('needs a quorum only, and repairs a node that restarted', async () => {
    const { cluster, lock } = await holding();
    cluster.servers[0]?.kill();
    await cluster.advance(10_000);
    expect(lock.isHeld).toBe(true);
    cluster.servers[0]?.restart({ keepData: false });
    await cluster.advance(1_500);
    expect(cluster.holdersOf('a')).toEqual(cluster.servers.map(() => lock.token.holder));
  });

  it('comes to the first node in quarantine as soon as that ends, and to the others no more often', async () => {
    const { cluster, lock, extensionTimes } = await holding({ ttl: 9_000, restartGuard: true }, 5);
    cluster.servers[0]?.restart({ keepData: false });
    const restartedAtMs = cluster.nowMs;
    await cluster.advance(1_500);
    cluster.servers[1]?.restart({ keepData: false });
    await cluster.advance(7_400);
    expect(cluster.holdersOf('a').slice(0, 2)).toEqual([undefined, undefined]);
    await cluster.advance(250);
    expect(cluster.holdersOf('a').slice(0, 2)).toEqual([lock.token.holder, undefined]);
    const times = extensionTimes();
    expect([times.length, times.at(-1)! - restartedAtMs > 8_999]).toEqual([4, true]);
    expect(Math.max(...gapsOf([restartedAtMs, ...times]))).toBeLessThanOrEqual(3_000);
  });

  it('can be turned off: then the lock ends after one ttl, which a signal that is read later says, too', async () => {
    const { cluster, lock, extensionTimes } = await holding({ extend: false });
    await cluster.advance(2_900);
    expect(lock.isHeld).toBe(true);
    await cluster.advance(100);
    expect(lock.signal.reason).toMatchObject({ reason: 'expired' });
    expect([lock.isHeld, extensionTimes()]).toEqual([false, []]);
  });

  it('never outlives the release, also when one was under way', async () => {
    const process = await holding({ latencyMs: 20 });
    const { cluster, lock, extensionTimes, received } = process;
    while (extensionTimes().length === 0) await cluster.advance(1);
    await cluster.settle(lock.release());
    await cluster.advance(20_000);
    expect([process.liveTimers, extensionTimes().length, cluster.holders('a')]).toEqual([0, 1, 0]);
    expect([lock.signal.aborted, received('extended')]).toEqual([false, []]);
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

  it('never takes validity back when an earlier one is answered last', async () => {
    const process = await holding({ nodeTimeout: 1_000, extend: false });
    const { cluster, lock, nodes, received } = process;
    const order: string[] = [];
    nodes[0]!.failNext({ error: 'OOM' }, { command: 'extend' });
    cluster.servers[2]?.freeze();
    const earlier = lock.extend().then(() => order.push('earlier'));
    await cluster.advance(500);
    await cluster.settle(lock.extend().then(() => order.push('later')));
    const validUntilMs = cluster.nowMs + lock.remainingMs;
    cluster.servers[2]?.resume();
    await cluster.settle(earlier);
    expect([order, received('extended').length]).toEqual([['later', 'earlier'], 2]);
    expect(cluster.nowMs + lock.remainingMs).toBeCloseTo(validUntilMs, 6);
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
    // That was no answer of a quorum, so it says nothing about how slow one is.
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
      'Lock "b" is used after its release. Do it inside the section, or acquire the lock again.',
    );
    await cluster.settle(lock.release());
    expect(() => lock.ensure()).toThrow(LockLostError);
  });
});

describe('a loss', () => {
  it('is reported before the validity ends, although no node answers any more', async () => {
    const { cluster, lock, received } = await holding();
    const validUntilMs = cluster.nowMs + lock.remainingMs;
    let abortedAtMs = Number.POSITIVE_INFINITY;
    lock.signal.addEventListener('abort', () => (abortedAtMs = cluster.nowMs));
    for (const server of cluster.servers) server.freeze();
    await cluster.advance(10_000);
    expect(abortedAtMs).toBeLessThan(validUntilMs);
    expect(abortedAtMs).toBeGreaterThan(validUntilMs - 100);
    expect(lock.signal.reason).toMatchObject({ name: 'LockLostError', reason: 'expired' });
    expect(received('lost')).toMatchObject([{ keys: ['a'], token: lock.token.value }]);
  });

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

  it('lets others have the keys as soon as all sections have ended, too', async () => {
    const { cluster, redlock } = await newProcess({ ttl: 20_000, extend: false });
    let abortedAtMs = Infinity;
    const aborted = ({ signal }: Lock) =>
      new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(void (abortedAtMs = cluster.nowMs)));
      });
    const nested = () => redlock.withLock('a', aborted, { nested: 'join' });
    await cluster.settle(rejection(redlock.withLock('a', nested)));
    await cluster.advance(5);
    expect([cluster.nowMs - abortedAtMs < 10, cluster.holders('a')]).toEqual([true, 0]);
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

  it('has one release, which all calls of it await', async () => {
    const { cluster, lock } = await holding({ ttl: 20_000, extend: false, latencyMs: 5 });
    const lost = new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    await cluster.settle(lost);
    const startedAtMs = cluster.nowMs;
    const tookMs = () => lock.release().then(() => cluster.nowMs - startedAtMs);
    expect(await cluster.settle(Promise.all([tookMs(), tookMs()]))).toEqual([5, 5]);
    expect(cluster.holders('a')).toBe(0);
  });

  it('is certain as soon as so many nodes lost it that no quorum is left, and releases it', async () => {
    const { cluster, lock, nodes, received } = await holding({ ttl: 9_000 }, 5);
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.advance(3_100);
    expect(lock.isHeld).toBe(true);
    cluster.occupy('a', [2], 60_000);
    await cluster.advance(3_100);
    const error = lock.signal.reason as LockLostError;
    expect([error.reason, received('lost').length]).toEqual(['taken', 1]);
    expect(error.causes.filter(({ reason }) => reason === 'lost')).toHaveLength(3);
    const granted = nodes.map((each) =>
      each.asked('release').map(({ request }) => request.granted),
    );
    expect(granted).toEqual(nodes.map(() => [true]));
    expect(cluster.holders('a')).toBe(3);
  });

  it('is not concluded from nodes that are unjoined, in quarantine, down or silent', async () => {
    const { cluster, lock } = await holding({ ttl: 9_000, restartGuard: true }, 5);
    cluster.servers[0]?.kill();
    cluster.servers[1]?.freeze();
    cluster.servers[2]?.restart({ keepData: false });
    cluster.servers[3]?.flush();
    await cluster.advance(3_500);
    expect([lock.isHeld, lock.signal.aborted]).toEqual([true, false]);
  });

  it('is never undone by a late answer', async () => {
    const { cluster, lock, extensionTimes, received } = await holding({
      nodeTimeout: 1_000,
      latencyMs: 20,
    });
    while (extensionTimes().length < 2) await cluster.advance(1);
    await cluster.advance(15);
    // Nothing runs until the old validity is over; then the answer, which would give a new one, is there first.
    cluster.environment.skip(lock.remainingMs + 100);
    expect(lock.isHeld).toBe(false);
    await cluster.advance(1_000);
    expect([lock.isHeld, lock.signal.aborted, received('lost').length]).toEqual([false, true, 1]);
  });

  it('is known to isHeld, remainingMs and ensure although every timer is late', async () => {
    const { cluster, lock } = await holding();
    cluster.environment.skip(2_900);
    expect(lock.isHeld).toBe(true);
    expect(lock.remainingMs).toBeCloseTo(66, 6);
    expect(() => lock.ensure(66)).not.toThrow();
    expect(() => lock.ensure(67)).toThrow(/less validity is left than the next step needs/);
    cluster.environment.skip(67);
    expect([lock.isHeld, lock.remainingMs]).toEqual([false, 0]);
    expect(lock.signal.aborted).toBe(false);
    expect(() => lock.ensure()).toThrow(LockLostError);
    expect(lock.signal.aborted).toBe(true);
  });

  it.each([['2s'], [Number.NaN], [null], [-1], [Number.POSITIVE_INFINITY], [20_000], [2_968.1]])(
    'asks ensure for what can be left, in milliseconds, and not for %p',
    async (asked) => {
      const { cluster, redlock, lock } = await holding();
      const message = expect.stringMatching(
        Number(asked) > 0
          ? / ms, but a lock with a ttl of 3 s never has more than 2968 ms left\..*raise 'ttl'/
          : /takes milliseconds as a number, such as ensure\(2_000\), not /,
      );
      const refuses = (each: Lock) =>
        expect(() => each.ensure(asked as number)).toThrow(
          expect.objectContaining({ code: 'FENCED_USAGE', message }),
        );
      refuses(lock);
      const nested = redlock.withLock('b', () =>
        redlock.withLock('b', (joined) => refuses(joined), { nested: 'join' }),
      );
      await cluster.settle(nested);
      expect(lock.isHeld).toBe(true);
    },
  );

  it('takes what could be left right after an extension for a matter of time', async () => {
    const { lock } = await holding();
    expect(() => lock.ensure(2_968)).toThrow(expect.objectContaining({ reason: 'short' }));
    expect(lock.isHeld).toBe(true);
  });

  it('sends the releases before it calls those who listen', async () => {
    const seen: number[] = [];
    const onEvent = ({ type }: { readonly type: string }) => {
      if (type === 'lost') seen.push(process.nodes[0]!.asked('release').length);
    };
    const process = await newProcess({ onEvent });
    const { cluster, redlock } = process;
    const lock: Lock = await cluster.settle(redlock.acquire('a'));
    lock.signal.addEventListener('abort', () =>
      seen.push(process.nodes[2]!.asked('release').length),
    );
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.failure(lock.extend());
    expect(seen).toEqual([1, 1]);
  });
});

describe('a suspend of the system', () => {
  it('extends at once what is kept extended, and nothing else', async () => {
    const asked: number[] = [];
    for (const extend of [true, false]) {
      const { cluster, lock, extensionTimes } = await holding({ extend });
      cluster.environment.suspend(500);
      expect(lock.isHeld).toBe(true);
      await cluster.advance(50);
      asked.push(extensionTimes().length);
    }
    expect(asked).toEqual([1, 0]);
  });

  it.each([
    ['suspended', 100, 20_000],
    ['suspended', 2_000, 980],
    ['expired', 2_990, 20_000],
  ])(
    'loses the lock as %s after %i ms awake and %i ms asleep',
    async (reason, awakeMs, asleepMs) => {
      const { cluster, lock } = await holding({ extend: false });
      await cluster.settle(lock.extend());
      cluster.environment.skip(awakeMs);
      cluster.environment.suspend(asleepMs);
      expect(() => lock.ensure()).toThrow(expect.objectContaining({ reason }));
      await cluster.advance(1_000);
    },
  );
});
