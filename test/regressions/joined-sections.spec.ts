import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../lib/core/lock.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import type { Cluster } from '../unit/core/support/cluster.ts';
import { eventsOf, sleepIn } from './support.ts';

const newCluster = clusterFactory();
const JOIN = { nested: 'join' } as const;

/** A section on `a` whose work ends at once with `result`, while a section that joined it goes on. */
async function leaveBehind<Nested>(
  cluster: Cluster,
  redlock: Redlock,
  nestedWork: (lock: Lock) => Promise<Nested>,
) {
  let nested!: Promise<Nested>;
  const outer = redlock.withLock('a', async () => {
    nested = redlock.withLock('a', nestedWork, JOIN);
    nested.catch(() => undefined);
    return 'result';
  });
  const startedAtMs = cluster.nowMs;
  const result = await cluster.settle(outer);
  return { nested, result, tookMs: cluster.nowMs - startedAtMs };
}

describe('a section that joined a lock and outlives the work that acquired it', () => {
  it('delays the release, which one event says when it takes more than a ttl', async () => {
    const cluster = await newCluster();
    const { redlock, events } = await cluster.process();
    const { nested } = await leaveBehind(cluster, redlock, () => sleepIn(cluster, 10_000));
    await cluster.advance(2_000);
    expect(eventsOf(events, 'release-delayed')).toEqual([]);
    expect(eventsOf(events, 'released')).toEqual([]);
    await cluster.settle(nested);
    expect(eventsOf(events, 'release-delayed')).toMatchObject([
      { keys: ['a'], sections: 1, sinceMs: expect.any(Number) },
    ]);
    expect(eventsOf(events, 'released')).toHaveLength(1);
  });

  it('is not waited for by release() of the outer handle, which ends that handle at once', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const seen = redlock.withLock('a', (outer) =>
      redlock.withLock(
        'a',
        async (joined) => {
          await outer.release();
          return [outer.isHeld, joined.isHeld, cluster.holders('a')];
        },
        JOIN,
      ),
    );
    expect(await cluster.settle(seen)).toEqual([false, true, 3]);
    await cluster.advance(50);
    expect(cluster.holders('a')).toBe(0);
  });

  it('is waited for by drain, and lost when the time of drain is over', async () => {
    const cluster = await newCluster();
    const patient = await cluster.process();
    const first = await leaveBehind(cluster, patient.redlock, () => sleepIn(cluster, 1_000));
    const startedAtMs = cluster.nowMs;
    await cluster.settle(patient.redlock.drain(5_000));
    expect(cluster.nowMs - startedAtMs).toBeGreaterThan(900);
    await cluster.settle(first.nested);
    const impatient = await cluster.process();
    const second = await leaveBehind(cluster, impatient.redlock, () => sleepIn(cluster, 1_000));
    await cluster.settle(impatient.redlock.drain(100));
    const error = await cluster.failure(second.nested);
    expect(error).toMatchObject({ code: 'LOCK_LOST', reason: 'closed' });
  });
});
