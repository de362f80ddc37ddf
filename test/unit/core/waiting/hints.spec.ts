import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../support/cluster.ts';
import type { Cluster, LockProcess, ProcessOptions } from '../support/cluster.ts';
import { held, newRoom } from '../support/waiting-room.ts';

const newCluster = clusterFactory();

/** The tries that a process made: one holder each. */
const tries = ({ nodes }: LockProcess) =>
  new Set(nodes.flatMap((node) => node.asked('acquire').map(({ request }) => request.holder))).size;

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
  return { cluster, waiter, lock, acquired, grantedAfterMs };
}

/** A release of `a` by `holder` is published, though another one has it. */
function forge({ servers }: Cluster, holder: string): void {
  const names = { marker: '', pairs: ['lock:a', 'lock:#floor:a'], locks: ['lock:a'] };
  for (const server of servers) {
    const { locks } = server.state;
    const holds = locks.get('lock:a')!;
    locks.set('lock:a', holder, 60_000);
    server.release({ names, holder, granted: true, notify: true });
    locks.set('lock:a', holds, 60_000);
  }
}

describe('a release in another process', () => {
  it.each([3, 5])(
    'wakes the waiter at once, for one try, of %i nodes that report it',
    async (size) => {
      const { cluster, waiter, lock, grantedAfterMs } = await contended(5_000, size);
      const before = tries(waiter);
      void lock.release();
      expect(await grantedAfterMs()).toBeLessThan(100);
      expect([before <= 2, tries(waiter) - before]).toEqual([true, 1]);
      await cluster.advance(10);
    },
  );

  it.each([
    ['before the subscription was made, while HELD is on its way back', 1.5, 3],
    ['during a reconnect', 1_000, 1],
  ])('is not missed %s', async (when, waitedMs, size) => {
    const { waiter, lock, grantedAfterMs } = await contended(waitedMs, size);
    if (when.includes('reconnect')) waiter.nodes[0]?.disconnect();
    void lock.release();
    expect(await grantedAfterMs()).toBeLessThan(200);
  });

  it('is never evidence: forged ones cost tries, never the lock', async () => {
    const { cluster, waiter, acquired } = await contended(0, 3, { wait: '3s' });
    for (let count = 0; count < 10; count += 1) {
      await cluster.advance(100);
      forge(cluster, `forged${count}`);
    }
    expect(await cluster.failure(acquired)).toMatchObject({ code: 'LOCK_BUSY' });
    expect(tries(waiter)).toBeGreaterThan(5);
  });
});

describe('releases of several keys of a set', () => {
  it('are followed by a try after the jitter that the latest one begins', async () => {
    const room = newRoom();
    room.chance(0.9);
    void room.call('ab', { wait: '1m' });
    await room.answer(held(0));
    room.table.hint('lock:b', 'elsewhere');
    await room.advance(500);
    room.table.hint('lock:a', 'elsewhere');
    await room.advance(1);
    expect(room.tries()).toEqual([]);
    await room.advance(40);
    expect(room.tries()).toEqual(['ab']);
  });
});

describe('a release of the future', () => {
  it('of a clock that has been turned back since, as fake ones are, keeps nobody waiting', async () => {
    const room = newRoom();
    const record = room.record('a');
    room.table.hint('lock:a', 'elsewhere');
    record.hintAtMs = room.set.nowMs + 3_600_000;
    void room.call('a');
    await room.advance(50);
    expect(room.tries()).toEqual(['a']);
  });
});

describe('subscriptions', () => {
  it.each([
    [2, 3],
    [3, 5],
  ])('that %i of %i nodes refuse are replaced by back-off', async (refusing, size) => {
    const { cluster, waiter, lock, grantedAfterMs } = await contended(0, size);
    for (const node of waiter.nodes.slice(0, refusing)) node.refusesWatches = true;
    await cluster.advance(5_000);
    // The nodes that would still say it receive it late.
    for (const node of waiter.nodes.slice(refusing)) node.unwatch('lock:a');
    void lock.release();
    expect(await grantedAfterMs()).toBeLessThan(1_000);
  });

  it('that a minority of nodes refuses cost no more tries', async () => {
    const { cluster, waiter, lock, grantedAfterMs } = await contended(0);
    waiter.nodes[0]!.refusesWatches = true;
    await cluster.advance(5_000);
    expect(tries(waiter)).toBeLessThanOrEqual(3);
    void lock.release();
    expect(await grantedAfterMs()).toBeLessThan(100);
  });

  it('that work again end the back-off', async () => {
    const { cluster, waiter } = await contended(0);
    for (const node of waiter.nodes) node.refusesWatches = true;
    await cluster.advance(5_000);
    for (const node of waiter.nodes) {
      node.refusesWatches = false;
      node.watch('lock:a');
    }
    await cluster.advance(1_000);
    const before = tries(waiter);
    await cluster.advance(5_000);
    expect([before > 5, tries(waiter)]).toEqual([true, before]);
  });

  it('are made by the first failed try that waits, and end a second after the last waiter', async () => {
    const { cluster, waiter, lock, acquired } = await contended(1);
    const { redlock, nodes } = waiter;
    await cluster.settle((await cluster.settle(redlock.acquire('free'))).release());
    cluster.occupy('b', [0, 1, 2], 60_000);
    await cluster.settle(redlock.tryAcquire('b'));
    const watched = () => nodes.map(({ watching }) => [...watching]);
    expect(watched()).toEqual([['lock:a'], ['lock:a'], ['lock:a']]);
    await cluster.settle(lock.release());
    await cluster.settle(acquired);
    await cluster.advance(900);
    expect(watched()).toEqual([['lock:a'], ['lock:a'], ['lock:a']]);
    await cluster.advance(200);
    expect(watched()).toEqual([[], [], []]);
  });
});
