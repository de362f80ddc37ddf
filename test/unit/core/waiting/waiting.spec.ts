import { describe, expect, it } from '@jest/globals';
import { LockBusyError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { clusterFactory, processFactory, rejection } from '../support/cluster.ts';
import type { Cluster } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();

/** Writes down who got the lock, and lets go of it `holdMs` later. */
function enter(
  cluster: Cluster,
  order: string[],
  name: string,
  acquired: Promise<Lock>,
  holdMs = 10,
): Promise<void> {
  return acquired.then(async (lock) => {
    order.push(name);
    await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, holdMs));
    await lock.release();
  });
}

describe('in one process', () => {
  it('waiters are served first come, first served', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    const order: string[] = [];
    const names = Array.from({ length: 20 }, (_, index) => `${index}`);
    const all = names.map((name) => enter(cluster, order, name, redlock.acquire('a')));
    await cluster.settle(Promise.all(all));
    expect(order).toEqual(names);
  });

  it('one waiter per key asks the nodes, however many wait', async () => {
    const { cluster, redlock, nodes } = await newProcess({ wait: '10s' });
    cluster.occupy('a', [0, 1, 2], 60_000);
    const rejected = Promise.all(Array.from({ length: 50 }, () => rejection(redlock.acquire('a'))));
    await cluster.advance(5_000);
    expect(nodes[0]!.asked('acquire').length).toBeLessThanOrEqual(3);
    for (const error of await cluster.settle(rejected)) expect(error).toBeInstanceOf(LockBusyError);
  });

  it('nobody asks the nodes for a lock that this process holds', async () => {
    const { cluster, redlock, nodes } = await newProcess({ wait: '1m' });
    const lock = await cluster.settle(redlock.acquire('a'));
    const second = redlock.acquire('a');
    await cluster.advance(10_000);
    expect(nodes[0]!.asked('acquire')).toHaveLength(1);
    const releasedAtMs = cluster.nowMs;
    void lock.release();
    await cluster.settle(second);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(10);
    expect(nodes[0]!.asked('acquire')).toHaveLength(2);
  });

  it('overlapping sets never wait for each other for ever', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    const order: string[] = [];
    const sets = [['a', 'b'], ['b', 'c'], ['c', 'a'], ['a'], ['b'], ['c'], ['c', 'b', 'a']];
    const all = [...sets, ...sets, ...sets].map((keys) =>
      enter(cluster, order, keys.join(''), redlock.acquire(keys)),
    );
    await cluster.settle(Promise.all(all));
    expect(order).toHaveLength(21);
  });

  it('a set waits behind each of its keys', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    const a = await cluster.settle(redlock.acquire('a'));
    const b = await cluster.settle(redlock.acquire('b'));
    const set = redlock.acquire(['a', 'b']);
    await cluster.settle(a.release());
    await cluster.advance(500);
    expect(cluster.holdersOf('a')).toEqual([undefined, undefined, undefined]);
    await cluster.settle(b.release());
    await cluster.settle(set);
    expect(cluster.holdersOf('a')).toEqual(cluster.holdersOf('b'));
    expect(cluster.holders('a')).toBe(3);
  });

  it('who gives up in line lets the next one pass', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    const lock = await cluster.settle(redlock.acquire('a'));
    const impatient = rejection(redlock.acquire('a', { wait: 100 }));
    const patient = redlock.acquire('a');
    expect(await cluster.settle(impatient)).toBeInstanceOf(LockBusyError);
    await cluster.settle(lock.release());
    expect((await cluster.settle(patient)).isHeld).toBe(true);
  });

  it('a lock that was lost makes room at once', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m', extend: false });
    const first = await cluster.settle(redlock.acquire('a'));
    const startedAtMs = cluster.nowMs;
    const second = await cluster.settle(redlock.acquire('a'));
    expect(first.isHeld).toBe(false);
    expect(second.token.value).toBeGreaterThan(first.token.value);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(3_100);
  });
});

describe('between processes', () => {
  it('every waiter gets its turn', async () => {
    const cluster = await newCluster(3);
    const order: string[] = [];
    const all: Promise<void>[] = [];
    for (let index = 0; index < 6; index += 1) {
      const { redlock } = await cluster.process({ wait: '5m' });
      for (let round = 0; round < 5; round += 1)
        all.push(enter(cluster, order, `${index}`, redlock.acquire('a')));
    }
    await cluster.settle(Promise.all(all));
    expect(order.filter((name) => name === '3')).toHaveLength(5);
    expect(order).toHaveLength(30);
  });

  it('never are two inside at once, also when nodes freeze, die and come back', async () => {
    const cluster = await newCluster(5, 7);
    let inside = 0;
    let served = 0;
    let lastToken = 0;
    const all: Promise<void>[] = [];
    for (let index = 0; index < 4; index += 1) {
      const { redlock } = await cluster.process({ wait: '5m', ttl: 1_000, restartGuard: true });
      for (let round = 0; round < 5; round += 1) {
        all.push(
          redlock.acquire('a').then(async (lock) => {
            inside += 1;
            expect(inside).toBe(1);
            expect(lock.token.value).toBeGreaterThan(lastToken);
            lastToken = lock.token.value;
            await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, 50));
            inside -= 1;
            served += 1;
            await lock.release();
          }),
        );
      }
    }
    const done = Promise.all(all);
    for (let round = 0; round < 10; round += 1) {
      const server = cluster.servers[round % 5]!;
      if (round % 2 === 0) server.freeze();
      else server.restart({ keepData: false });
      await cluster.advance(700);
      server.resume();
      await cluster.advance(700);
    }
    await cluster.settle(done);
    expect(served).toBe(20);
  });
});

describe('the budget', () => {
  it.each([0, 5, 50, 700, 5_000])('a wait of %i ms ends in time, behind a holder', async (wait) => {
    const { cluster, redlock } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    const startedAtMs = cluster.nowMs;
    const error = await cluster.failure(redlock.acquire('a', { wait }));
    expect(error).toBeInstanceOf(LockBusyError);
    expect(cluster.nowMs - startedAtMs).toBeGreaterThanOrEqual(wait);
    expect(cluster.nowMs - startedAtMs).toBeLessThanOrEqual(wait + 3);
    expect((error as LockBusyError).waitedMs).toBe(cluster.nowMs - startedAtMs);
  });

  it.each([1, 50, 299, 700, 5_000])(
    'a wait of %i ms ends in time, with all nodes frozen',
    async (wait) => {
      const { cluster, redlock } = await newProcess();
      for (const server of cluster.servers) server.freeze();
      const startedAtMs = cluster.nowMs;
      await cluster.failure(redlock.acquire('a', { wait }));
      expect(cluster.nowMs - startedAtMs).toBeGreaterThanOrEqual(wait);
      expect(cluster.nowMs - startedAtMs).toBeLessThanOrEqual(wait + 3);
    },
  );

  it('holds over several ballots of one try', async () => {
    const cluster = await newCluster();
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    await cluster.settle((await cluster.settle(ahead.redlock.acquire('a'))).release());
    // Accepted, stale, and no answer: the round lasts to its end, and then there is a second one.
    cluster.servers[0]?.state.floors.delete('lock:#floor:a');
    const { redlock, nodes } = await cluster.process();
    cluster.servers[2]?.freeze();
    const startedAtMs = cluster.nowMs;
    const outcome = redlock.acquire('a', { wait: 100 }).catch((error: unknown) => error);
    await cluster.advance(50);
    cluster.servers[1]?.freeze();
    await cluster.settle(outcome);
    expect(nodes[0]!.asked('acquire').length).toBeGreaterThan(0);
    expect(cluster.nowMs - startedAtMs).toBeLessThanOrEqual(103);
  });

  it('of a place in line ends in time', async () => {
    const { cluster, redlock } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    const first = rejection(redlock.acquire('a', { wait: '5s' }));
    await cluster.advance(100);
    const startedAtMs = cluster.nowMs;
    const error = await cluster.failure(redlock.acquire('a', { wait: 200 }));
    // It reports what the one ahead has learnt of the holder.
    expect((error as LockBusyError).causes[0]).toMatchObject({ reason: 'held' });
    expect(cluster.nowMs - startedAtMs).toBe(300);
    await cluster.settle(first);
  });

  it('wait 0 makes exactly one try', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    await cluster.failure(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(5_000);
    expect(nodes[0]!.asked('acquire')).toHaveLength(1);
  });
});

describe('behind a holder that died', () => {
  it('the lock is had as soon as its keys expire on a quorum', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    cluster.occupy('a', [0, 1], 4_000);
    cluster.occupy('a', [2], 2_000);
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.acquire('a'));
    expect(cluster.nowMs - startedAtMs).toBeGreaterThan(3_990);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(4_200);
  });
});
