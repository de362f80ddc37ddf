import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../../../lib/core/lock.ts';
import { processFactory, rejection } from '../support/cluster.ts';
import type { ProcessOptions } from '../support/cluster.ts';

const newProcess = processFactory();
const OVERDUE = { code: 'LOCK_LOST', reason: 'overdue' };

/** A process that holds `a` for at most 10 s, with a ttl of 3 s unless asked for; `at` is the time since it asked. */
async function holding(options: ProcessOptions = {}) {
  const process = await newProcess({ maxHold: '10s', ...options });
  const { cluster, redlock, node } = process;
  const startedAtMs = cluster.nowMs;
  const at = () => cluster.nowMs - startedAtMs;
  const lock = await cluster.settle(redlock.acquire('a'));
  let abortedAtMs = Number.NaN;
  lock.signal.addEventListener('abort', () => (abortedAtMs = at()));
  const extensions = () => node.asked('extend').length;
  return { ...process, cluster, lock, at, extensions, abortedAt: () => abortedAtMs };
}

describe('a lock with maxHold', () => {
  it('is extended until then, aborts its work at that moment, and says so', async () => {
    const { cluster, lock, extensions, abortedAt, received } = await holding();
    await cluster.advance(9_990);
    const before = extensions();
    expect([lock.isHeld, before >= 9]).toEqual([true, true]);
    await cluster.advance(15_000);
    expect(Math.floor(abortedAt())).toBe(10_000);
    expect(lock.signal.reason).toMatchObject(OVERDUE);
    expect([lock.isHeld, extensions()]).toEqual([false, before]);
    const { value: token, holder } = lock.token;
    expect(received('overdue')).toMatchObject([{ keys: ['a'], token, holder }]);
    expect(Math.floor(received('overdue')[0]!.heldMs)).toBe(10_000);
    expect(received('lost').map(({ error }) => error)).toMatchObject([OVERDUE]);
    expect(received('held-long')).toEqual([]);
  });

  it.each([
    ['only when its validity is over, while the work goes on', false],
    ['as soon as the work has ended', true],
  ])('goes to the next holder %s', async (_, ends) => {
    const { cluster, lock, at } = await holding({ maxHold: '9.5s' });
    await cluster.advance(9_400);
    const validUntilMs = at() + lock.remainingMs;
    expect(validUntilMs).toBeGreaterThan(10_500);
    if (ends) lock.signal.addEventListener('abort', () => void lock.release());
    const { redlock: other } = await cluster.process();
    await cluster.settle(other.acquire('a', { wait: '1m' }));
    expect([at() < 9_600, at() >= validUntilMs]).toEqual([ends, !ends]);
    expect(at()).toBeLessThan(validUntilMs + 100);
  });

  it.each<[string, string, ProcessOptions]>([
    ['before it would have ended anyway', 'overdue', { extend: false, maxHold: '2s' }],
    ['not where the lock ends with its ttl before', 'expired', { extend: false, maxHold: '3s' }],
    ['also below the ttl', 'overdue', { maxHold: '2s' }],
  ])('is overdue %s', async (_, reason, options) => {
    const { cluster, lock, received } = await holding(options);
    await cluster.advance(6_000);
    expect(lock.signal.reason).toMatchObject({ reason });
    expect(received('overdue')).toHaveLength(reason === 'overdue' ? 1 : 0);
  });

  it('counts from its grant for the sections that join it, and aborts all of them', async () => {
    const { cluster, redlock, received } = await newProcess({ maxHold: '1m' });
    const aborted = ({ signal }: Lock) =>
      new Promise<unknown>((resolve) =>
        signal.addEventListener('abort', () => resolve(signal.reason)),
      );
    const join = { nested: 'join', maxHold: '1h' } as const;
    const reasons: unknown[] = [];
    const work = redlock.withLock(
      'a',
      async (lock) => {
        const outer = aborted(lock);
        await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, 4_000));
        const inner = rejection(redlock.withLock('a', aborted, join));
        reasons.push(await outer, await inner);
      },
      { maxHold: '5s' },
    );
    await cluster.settle(rejection(work));
    expect(reasons).toMatchObject([OVERDUE, OVERDUE]);
    expect(received('overdue').map(({ heldMs }) => Math.floor(heldMs))).toEqual([5_000]);
  });

  it('is not extended by hand either, although every timer is late, and stays taken for as long as it is valid', async () => {
    const { cluster, lock, extensions } = await holding({ extend: false, maxHold: '2s' });
    cluster.environment.skip(2_100);
    const leftMs = lock.remainingMs;
    await expect(lock.extend()).rejects.toMatchObject(OVERDUE);
    expect(extensions()).toBe(0);
    await cluster.advance(leftMs - 5);
    expect(cluster.holders('a')).toBe(3);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });

  it('is not overdue when its work has ended before, or only minHold keeps it', async () => {
    const { cluster, lock, received } = await holding({ minHold: '2s', maxHold: '2s' });
    await cluster.advance(1_000);
    await lock.release();
    await cluster.advance(1_010);
    expect(cluster.holders('a')).toBe(0);
    await cluster.advance(20_000);
    expect([received('overdue'), received('lost')]).toEqual([[], []]);
  });
});

describe('a lock without maxHold', () => {
  it('is reported once after ten ttl, and is extended further', async () => {
    const { cluster, lock, received } = await holding({ maxHold: undefined });
    await cluster.advance(29_900);
    expect(received('held-long')).toEqual([]);
    await cluster.advance(1_100);
    const { value: token, holder } = lock.token;
    expect(received('held-long')).toMatchObject([{ keys: ['a'], token, holder }]);
    await cluster.advance(60_000);
    expect([received('held-long').length, lock.isHeld]).toEqual([1, true]);
  });
});
