import { describe, expect, it } from '@jest/globals';
import { LockBusyError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { clusterFactory, processFactory, rejection } from '../support/cluster.ts';
import type { Cluster } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();

function sleep(cluster: Cluster, ms: number): Promise<void> {
  return new Promise((resolve) => void cluster.environment.timers.set(resolve, ms));
}

/** Writes down who was granted the lock, and releases it 10 ms later. */
async function enter(cluster: Cluster, order: string[], name: string, acquired: Promise<Lock>) {
  const lock = await acquired;
  order.push(name);
  await sleep(cluster, 10);
  await lock.release();
}

describe('in one process', () => {
  it('callers are served first come, first served', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    const order: string[] = [];
    const names = Array.from({ length: 20 }, (_, index) => `${index}`);
    const all = names.map((name) => enter(cluster, order, name, redlock.acquire('a')));
    await cluster.settle(Promise.all(all));
    expect(order).toEqual(names);
  });

  it('one caller per key asks the nodes, however many wait', async () => {
    const { cluster, redlock, node } = await newProcess({ wait: '10s' });
    cluster.occupy('a', [0, 1, 2], 60_000);
    const rejected = Promise.all(Array.from({ length: 50 }, () => rejection(redlock.acquire('a'))));
    await cluster.advance(5_000);
    expect(node.asked('acquire').length).toBeLessThanOrEqual(3);
    for (const error of await cluster.settle(rejected)) expect(error).toBeInstanceOf(LockBusyError);
  });

  it('no caller asks the nodes for a lock that is held here, and the next one does at its release', async () => {
    const { cluster, redlock, node } = await newProcess({ wait: '1m' });
    const lock = await cluster.settle(redlock.acquire('a'));
    const second = redlock.acquire('a');
    await cluster.advance(10_000);
    expect(node.asked('acquire')).toHaveLength(1);
    const releasedAtMs = cluster.nowMs;
    void lock.release();
    await cluster.settle(second);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(10);
    expect(node.asked('acquire')).toHaveLength(2);
  });

  it('a caller that gives up in line, or a lock that is lost, makes room for the next one', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m', extend: false });
    const first = await cluster.settle(redlock.acquire('a'));
    const startedAtMs = cluster.nowMs;
    const impatient = rejection(redlock.acquire('a', { wait: 100 }));
    const second = redlock.acquire('a');
    expect(await cluster.settle(impatient)).toBeInstanceOf(LockBusyError);
    expect((await cluster.settle(second)).token.value).toBeGreaterThan(first.token.value);
    expect([first.isHeld, cluster.nowMs - startedAtMs < 3_100]).toEqual([false, true]);
  });
});

describe('between processes', () => {
  it('every waiter gets its turn, and two are never inside at once, also when nodes freeze, die and come back', async () => {
    const cluster = await newCluster(5, 7);
    let [inside, served, lastToken] = [0, 0, 0];
    const work = async ({ token }: Lock) => {
      inside += 1;
      expect([inside, token.value > lastToken]).toEqual([1, true]);
      lastToken = token.value;
      await sleep(cluster, 50);
      inside -= 1;
      served += 1;
    };
    const all: Promise<void>[] = [];
    for (let index = 0; index < 4; index += 1) {
      const { redlock } = await cluster.process({ wait: '5m', ttl: 1_000, restartGuard: true });
      for (let round = 0; round < 5; round += 1) all.push(redlock.withLock('a', work));
    }
    for (let round = 0; round < 10; round += 1) {
      const server = cluster.servers[round % 5]!;
      if (round % 2 === 0) server.freeze();
      else server.restart({ keepData: false });
      await cluster.advance(700);
      server.resume();
      await cluster.advance(700);
    }
    await cluster.settle(Promise.all(all));
    expect(served).toBe(20);
  });

  it('a lock of a holder that died is granted as soon as its keys expire on a quorum', async () => {
    const { cluster, redlock } = await newProcess({ wait: '1m' });
    cluster.occupy('a', [0, 1], 4_000);
    cluster.occupy('a', [2], 2_000);
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.acquire('a'));
    expect(cluster.nowMs - startedAtMs).toBeGreaterThan(3_990);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(4_200);
  });
});

describe('the budget', () => {
  it.each([0, 5, 50, 299, 700, 5_000])(
    'of %i ms behind a holder ends in time, but for a round trip that is left',
    async (wait) => {
      const { cluster, redlock } = await newProcess();
      cluster.occupy('a', [0, 1, 2], 60_000);
      const startedAtMs = cluster.nowMs;
      const error = await cluster.failure(redlock.acquire('a', { wait }));
      const tookMs = cluster.nowMs - startedAtMs;
      expect(error).toMatchObject({ code: 'LOCK_BUSY', waitedMs: tookMs });
      expect([tookMs >= wait - 2, tookMs <= wait + 3]).toEqual([true, true]);
    },
  );

  it.each([0, 1, 50, 299, 700, 5_000])(
    'of %i ms with all nodes frozen ends in time, and is a node timeout at least',
    async (wait) => {
      const { cluster, redlock } = await newProcess();
      for (const server of cluster.servers) server.freeze();
      const startedAtMs = cluster.nowMs;
      await cluster.failure(redlock.acquire('a', { wait }));
      const lateMs = cluster.nowMs - startedAtMs - Math.max(wait, 300);
      expect([lateMs >= -2, lateMs <= 3]).toEqual([true, true]);
    },
  );

  it('of a place in line ends in time, and the error has what the one ahead knows', async () => {
    const { cluster, redlock } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    const first = rejection(redlock.acquire('a', { wait: '5s' }));
    await cluster.advance(100);
    const startedAtMs = cluster.nowMs;
    const error = await cluster.failure(redlock.acquire('a', { wait: 200 }));
    expect((error as LockBusyError).causes[0]).toMatchObject({ reason: 'held' });
    expect(cluster.nowMs - startedAtMs).toBe(200);
    await cluster.settle(first);
  });

  it('of 0 is exactly one try', async () => {
    const { cluster, redlock, node } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    await cluster.failure(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(5_000);
    expect(node.asked('acquire')).toHaveLength(1);
  });
});
