import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../../../lib/core/lock.ts';
import { clusterFactory, processFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess, ProcessOptions } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();

/** The tries that a process made for `key`: one holder each. */
function tries({ nodes }: LockProcess): number {
  return new Set(
    nodes.flatMap((node) => node.asked('acquire').map(({ request }) => request.holder)),
  ).size;
}

/** Two processes; the first holds `a` for long, the other waits for it since `waitedMs` ago. */
async function contended(waitedMs: number, size = 3, options: ProcessOptions = {}) {
  const cluster = await newCluster(size);
  const holder = await cluster.process({ ttl: 60_000 });
  const waiter = await cluster.process({ ttl: 60_000, wait: '1m', ...options });
  const lock = await cluster.settle(holder.redlock.acquire('a'));
  const acquired = waiter.redlock.acquire('a');
  acquired.catch(() => undefined);
  await cluster.advance(waitedMs);
  /** How long it takes from now until the waiter is granted the lock. */
  const grantedAfterMs = async () => {
    const startedAtMs = cluster.nowMs;
    await cluster.settle(acquired);
    return cluster.nowMs - startedAtMs;
  };
  return { cluster, holder, waiter, lock, acquired, grantedAfterMs };
}

/** A release by `holder` on every server at once; where it holds nothing, a lock of its own is put there for it, and the true holder is put back. */
function publish({ servers }: Cluster, key: string, holder: string): void {
  const lock = `lock:${key}`;
  const names = { marker: '', pairs: [lock, `lock:#floor:${key}`], locks: [lock] };
  for (const server of servers) {
    const { locks } = server.state;
    const owner = locks.get(lock);
    if (owner !== holder) locks.set(lock, holder, 60_000);
    server.release({ names, holder, granted: true, notify: true });
    if (owner !== undefined && owner !== holder) locks.set(lock, owner, 60_000);
  }
}

/** The lock `a` is released, and word of it comes before answers that are under way. */
function overtake({ servers }: Cluster, { nodes }: LockProcess, { token }: Lock): void {
  for (const server of servers) server.deleteLock('lock:a');
  for (const node of nodes) node.tell('lock:a', token.holder);
}

/** How long ago the last try was sent. */
function inFlight({ nodes }: LockProcess, { nowMs }: Cluster): number {
  return nowMs - (nodes[0]?.asked('acquire').at(-1)?.atMs ?? 0);
}

describe('a release in another process', () => {
  it.each([3, 5])(
    'wakes the waiter at once, for one try, though all %i nodes report it',
    async (size) => {
      const { cluster, waiter, lock, grantedAfterMs } = await contended(5_000, size);
      const before = tries(waiter);
      void lock.release();
      expect(await grantedAfterMs()).toBeLessThan(100);
      expect([before <= 2, tries(waiter) - before]).toEqual([true, 1]);
      await cluster.advance(10);
    },
  );

  it('is not missed when it is received before the answer to a try', async () => {
    const { cluster, waiter, lock, grantedAfterMs } = await contended(5_000);
    publish(cluster, 'a', 'forged');
    // The forged hint has started a try, whose answers are under way when the release overtakes them.
    while (inFlight(waiter, cluster) > 1) await cluster.advance(0.25);
    await cluster.advance(1.25 - inFlight(waiter, cluster));
    overtake(cluster, waiter, lock);
    expect(await grantedAfterMs()).toBeLessThan(100);
  });

  it('is not missed during the very first try while a subscription still lingers', async () => {
    const { cluster, holder, waiter, lock, acquired } = await contended(200);
    // The waiter's process has subscribed for an earlier wait, so no acknowledgement will come.
    await cluster.settle(lock.release());
    await cluster.settle((await cluster.settle(acquired)).release());
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

  it('is not missed by a subscription that became active only afterwards', async () => {
    // HELD is on its way back, and the subscription not made yet.
    const { cluster, lock, grantedAfterMs } = await contended(1.5);
    publish(cluster, 'a', lock.token.holder);
    expect(await grantedAfterMs()).toBeLessThan(100);
  });

  it('is not missed when it happened during a reconnect', async () => {
    const { cluster, waiter, lock, grantedAfterMs } = await contended(1_000, 1);
    waiter.nodes[0]?.disconnect();
    await cluster.settle(lock.release());
    expect(await grantedAfterMs()).toBeLessThan(200);
  });
});

describe('a hint is never evidence:', () => {
  it('forged ones cost tries, never the lock', async () => {
    const { cluster, waiter, acquired } = await contended(0, 3, { wait: '3s' });
    for (let count = 0; count < 10; count += 1) {
      await cluster.advance(100);
      publish(cluster, 'a', `forged${count}`);
    }
    expect(await cluster.failure(acquired)).toMatchObject({ code: 'LOCK_BUSY' });
    expect(tries(waiter)).toBeGreaterThan(5);
  });
});

describe('the tries of a waiter', () => {
  it('do not wake itself', async () => {
    const waiter = await newProcess({ wait: '2s', retry: { baseDelay: 300, maxDelay: 300 } });
    const { cluster, redlock, node } = waiter;
    // One node accepts, one refuses, one never answers: others may take us for a holder, so our release is published.
    cluster.occupy('a', [1], 60_000);
    cluster.servers[2]?.freeze();
    await cluster.failure(redlock.acquire('a'));
    const published = node.asked('release').filter(({ request }) => request.notify);
    expect(published.length).toBeGreaterThan(0);
    // Up to 300 ms apart, 150 on average; woken by itself it would come back within 40 ms.
    expect(tries(waiter)).toBeLessThan(25);
  });

  it('do not wake others, unless these may have taken it for a holder', async () => {
    const { cluster, redlock, nodes } = await newProcess({ ttl: 60_000 });
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect(nodes[2]?.asked('release')).toMatchObject([{ request: { notify: false } }]);
    cluster.servers[2]?.freeze();
    cluster.occupy('b', [0], 60_000);
    await cluster.failure(redlock.acquire('b', { wait: 0 }));
    const published = { request: { notify: true, granted: false } };
    expect(nodes[1]?.asked('release')).toMatchObject([published]);
  });

  it('wake others when a vote was lost with its connection, because these may have taken it for a holder', async () => {
    const { cluster, redlock, nodes } = await newProcess({ ttl: 60_000 });
    cluster.servers[2]?.kill();
    await cluster.advance(5);
    nodes[1]!.failNext('lose-reply', { command: 'acquire' });
    const failed = rejection(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(2);
    nodes[1]!.disconnect();
    await cluster.settle(failed);
    expect(nodes[0]?.asked('release')).toMatchObject([{ request: { notify: true } }]);
  });
});

describe('subscriptions', () => {
  it('are made by the first failed try only, and end a second after the last waiter', async () => {
    const { cluster, waiter, lock, acquired } = await contended(1);
    const { redlock, nodes } = waiter;
    await cluster.settle((await cluster.settle(redlock.acquire('free'))).release());
    const watched = () => nodes.map(({ watching }) => [...watching]);
    expect(watched()).toEqual([['lock:a'], ['lock:a'], ['lock:a']]);
    await cluster.settle(redlock.tryAcquire('a', { wait: 500 }));
    await cluster.advance(5_000);
    expect(watched()).toEqual([['lock:a'], ['lock:a'], ['lock:a']]);
    await cluster.settle(lock.release());
    await cluster.settle(acquired);
    await cluster.advance(900);
    expect(watched()).toEqual([['lock:a'], ['lock:a'], ['lock:a']]);
    await cluster.advance(200);
    expect(watched()).toEqual([[], [], []]);
  });

  it('are not made by a try that does not wait', async () => {
    const { cluster, redlock, node } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    await cluster.settle(redlock.tryAcquire('a'));
    expect(node.watching.size).toBe(0);
  });
});
