import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../../../lib/core/lock.ts';
import { clusterFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();

/** The tries that a process made for `key`: one holder each. */
function tries({ nodes }: LockProcess): number {
  return new Set(
    nodes.flatMap((node) => node.asked('acquire').map(({ request }) => request.holder)),
  ).size;
}

/** Two processes; the first holds `key` for a long time. */
async function contended(cluster: Cluster, key = 'a') {
  const holder = await cluster.process({ ttl: 60_000 });
  const waiter = await cluster.process({ ttl: 60_000, wait: '1m' });
  const lock = await cluster.settle(holder.redlock.acquire(key));
  return { holder, waiter, lock };
}

/** A release by `holder` on every server at once; where it holds nothing, a lock of its own is put there for it, and the true holder is put back. */
function publish({ servers }: Cluster, key: string, holder: string): void {
  const lock = `lock:${key}`;
  const names = { withMarker: [], pairs: [lock, `lock:#floor:${key}`], locks: [lock] };
  for (const server of servers) {
    const { locks } = server.state;
    const owner = locks.get(lock);
    if (owner !== holder) locks.set(lock, holder, 60_000);
    server.release({ names, holder, granted: true, notify: true });
    if (owner !== undefined && owner !== holder) locks.set(lock, owner, 60_000);
  }
}

/** The lock 'a' is released, and word of it comes before answers that are under way. */
function overtake({ servers }: Cluster, { nodes }: LockProcess, { token }: Lock): void {
  for (const server of servers) server.deleteLock('lock:a');
  for (const node of nodes) node.tell('lock:a', token.holder);
}

/** How long ago the last try was sent. */
function inFlight({ nodes }: LockProcess, { nowMs }: Cluster): number {
  return nowMs - (nodes[0]?.asked('acquire').at(-1)?.atMs ?? 0);
}

describe('a release in another process', () => {
  it('wakes the waiter at once', async () => {
    const cluster = await newCluster(3);
    const { waiter, lock } = await contended(cluster);
    const acquired = waiter.redlock.acquire('a');
    await cluster.advance(5_000);
    const releasedAtMs = cluster.nowMs;
    await cluster.settle(lock.release());
    await cluster.settle(acquired);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(100);
    expect(tries(waiter)).toBeLessThanOrEqual(3);
  });

  it('costs one try, although every node tells of it', async () => {
    const cluster = await newCluster(5);
    const { waiter, lock } = await contended(cluster);
    const acquired = waiter.redlock.acquire('a');
    await cluster.advance(5_000);
    const before = tries(waiter);
    await cluster.settle(lock.release());
    await cluster.settle(acquired);
    expect(tries(waiter) - before).toBe(1);
  });

  it('that is heard before the answer to a try is not missed', async () => {
    const cluster = await newCluster(3);
    const { waiter, lock } = await contended(cluster);
    const acquired = waiter.redlock.acquire('a');
    await cluster.advance(5_000);
    publish(cluster, 'a', 'forged');
    // The forged hint has started a try, whose answers are under way when the release overtakes them.
    while (inFlight(waiter, cluster) > 1) await cluster.advance(0.25);
    await cluster.advance(1.25 - inFlight(waiter, cluster));
    const releasedAtMs = cluster.nowMs;
    overtake(cluster, waiter, lock);
    await cluster.settle(acquired);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(100);
  });

  it('during the very first try is not missed while a subscription still lingers', async () => {
    const cluster = await newCluster(3);
    const { holder, waiter, lock } = await contended(cluster);
    // The waiter's process has subscribed for an earlier wait, so no acknowledgement will come.
    const acquired = waiter.redlock.acquire('a');
    await cluster.advance(200);
    await cluster.settle(lock.release());
    const earlier = await cluster.settle(acquired);
    await cluster.settle(earlier.release());
    await cluster.advance(10);
    const next = await cluster.settle(holder.redlock.acquire('a'));
    expect(waiter.nodes[0]?.watching).toContain('lock:a');
    // HELD is under way when the lock is released; the message of the release overtakes it.
    const second = waiter.redlock.acquire('a');
    await cluster.advance(1.5);
    const releasedAtMs = cluster.nowMs;
    overtake(cluster, waiter, next);
    await cluster.settle(second);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(100);
  });

  it('is learnt of by a subscription that became active only afterwards', async () => {
    const cluster = await newCluster(3);
    const { waiter, lock } = await contended(cluster);
    const acquired = waiter.redlock.acquire('a');
    // HELD is on its way back, and the subscription not made yet.
    await cluster.advance(1.5);
    publish(cluster, 'a', lock.token.holder);
    const releasedAtMs = cluster.nowMs;
    await cluster.settle(acquired);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(100);
  });

  it('is learnt of after a reconnect during which it happened', async () => {
    const cluster = await newCluster(1);
    const { waiter, lock } = await contended(cluster);
    const acquired = waiter.redlock.acquire('a');
    await cluster.advance(1_000);
    waiter.nodes[0]?.disconnect();
    await cluster.settle(lock.release());
    const releasedAtMs = cluster.nowMs;
    await cluster.settle(acquired);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(200);
  });
});

describe('a hint is never evidence', () => {
  it('forged ones cost tries, never the lock', async () => {
    const cluster = await newCluster(3);
    const { waiter } = await contended(cluster);
    let granted = false;
    const acquired = waiter.redlock.acquire('a', { wait: '3s' });
    acquired.then(
      () => (granted = true),
      () => undefined,
    );
    for (let count = 0; count < 10; count += 1) {
      await cluster.advance(100);
      publish(cluster, 'a', `forged${count}`);
    }
    expect(await cluster.failure(acquired)).toMatchObject({ code: 'LOCK_BUSY' });
    expect(granted).toBe(false);
    expect(tries(waiter)).toBeGreaterThan(5);
  });
});

describe('the tries of a waiter', () => {
  it('do not wake itself', async () => {
    const cluster = await newCluster(3);
    const waiter = await cluster.process({ wait: '2s', retry: { baseDelay: 300, maxDelay: 300 } });
    // One node accepts, one refuses, one never answers: others may take us for a holder, so our release is published.
    cluster.occupy('a', [1], 60_000);
    cluster.servers[2]?.freeze();
    await cluster.failure(waiter.redlock.acquire('a'));
    const published = waiter.nodes[0]?.asked('release').filter(({ request }) => request.notify);
    expect(published?.length).toBeGreaterThan(0);
    // Up to 300 ms apart, 150 on average; woken by itself it would come back within 40 ms.
    expect(tries(waiter)).toBeLessThan(25);
  });

  it('do not wake others, unless these may have taken it for a holder', async () => {
    const cluster = await newCluster(3);
    const loser = await cluster.process({ ttl: 60_000 });
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.failure(loser.redlock.acquire('a', { wait: 0 }));
    expect(loser.nodes[2]?.asked('release')).toMatchObject([{ request: { notify: false } }]);
    cluster.servers[2]?.freeze();
    cluster.occupy('b', [0], 60_000);
    await cluster.failure(loser.redlock.acquire('b', { wait: 0 }));
    expect(loser.nodes[1]?.asked('release')).toMatchObject([
      { request: { notify: true, granted: false } },
    ]);
  });

  it('wake others when a vote was lost with its connection, because these may have taken it for a holder', async () => {
    const cluster = await newCluster(3);
    const loser = await cluster.process({ ttl: 60_000 });
    cluster.servers[2]?.kill();
    await cluster.advance(5);
    loser.nodes[1]!.failNext('lose-reply', { command: 'acquire' });
    const failed = rejection(loser.redlock.acquire('a', { wait: 0 }));
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(2);
    loser.nodes[1]!.disconnect();
    await cluster.settle(failed);
    expect(loser.nodes[0]?.asked('release')).toMatchObject([{ request: { notify: true } }]);
  });
});

describe('subscriptions', () => {
  it('are made by the first failed try only, and end a second after the last waiter', async () => {
    const cluster = await newCluster(3);
    const { waiter, lock } = await contended(cluster);
    const free = await cluster.settle(waiter.redlock.acquire('free'));
    await cluster.settle(free.release());
    expect(waiter.nodes[0]?.watching.size).toBe(0);
    const acquired = waiter.redlock.acquire('a');
    await cluster.advance(100);
    expect(waiter.nodes.map(({ watching }) => [...watching])).toEqual([
      ['lock:a'],
      ['lock:a'],
      ['lock:a'],
    ]);
    await cluster.settle(lock.release());
    await cluster.settle(acquired);
    await cluster.advance(900);
    expect(waiter.nodes[0]?.watching.size).toBe(1);
    await cluster.advance(200);
    expect(waiter.nodes.map(({ watching }) => watching.size)).toEqual([0, 0, 0]);
  });

  it('are not made by a try that does not wait', async () => {
    const cluster = await newCluster(3);
    const { waiter } = await contended(cluster);
    await cluster.settle(waiter.redlock.tryAcquire('a'));
    expect(waiter.nodes[0]?.watching.size).toBe(0);
  });

  it('are kept while another waiter needs them', async () => {
    const cluster = await newCluster(3);
    const { waiter, lock } = await contended(cluster);
    const impatient = waiter.redlock.acquire('a', { wait: 500 }).catch(() => undefined);
    const patient = waiter.redlock.acquire('a');
    await cluster.settle(impatient);
    await cluster.advance(5_000);
    expect(waiter.nodes[0]?.watching.size).toBe(1);
    const releasedAtMs = cluster.nowMs;
    await cluster.settle(lock.release());
    await cluster.settle(patient);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(100);
  });
});
