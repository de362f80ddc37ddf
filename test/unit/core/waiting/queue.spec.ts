import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../../../lib/core/lock.ts';
import { clusterFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';
import type { RecordedNode } from '../support/recorded-node.ts';

const newCluster = clusterFactory();
/** Time for which a key is kept for a process that is two ms away. */
const GRACE_MS = 20;

/** How long it takes from the release of a lock to the grant that waits for it. */
async function delayAfterRelease(
  cluster: Cluster,
  lock: Lock,
  grantedAtMs: Promise<number>,
): Promise<number> {
  const releasedAtMs = cluster.nowMs;
  void lock.release();
  return (await cluster.settle(grantedAtMs)) - releasedAtMs;
}

const queuesOf = ({ servers }: Cluster) =>
  servers.map((server) => server.call('ZCARD', 'lock:a#queue'));

describe('a place in line', () => {
  it('is never taken by a call with wait: 0, which takes no turn of another one either', async () => {
    const cluster = await newCluster();
    const [holder, first, hasty] = [
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ wait: '1m' }),
      await cluster.process(),
    ];
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    const granted = first.redlock.acquire('a').then(() => cluster.nowMs);
    await cluster.advance(50);
    const busy = await cluster.failure(hasty.redlock.acquire('a', { wait: 0 }));
    expect(busy).toMatchObject({ code: 'LOCK_BUSY' });
    expect([queuesOf(cluster), hasty.nodes[0]!.asked('wait')]).toEqual([[1, 1, 1], []]);
    for (const node of first.nodes) node.freeze();
    const releasedAtMs = cluster.nowMs;
    void lock.release();
    await cluster.advance(3);
    expect(await cluster.settle(hasty.redlock.tryAcquire('a'))).toBeNull();
    for (const node of first.nodes) node.resume();
    expect((await cluster.settle(granted)) - releasedAtMs).toBeLessThan(GRACE_MS);
  });

  it('is kept for a set when a call of its process with wait: 0 has tried for one of its keys', async () => {
    const cluster = await newCluster();
    const [one, other, process] = [
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ wait: '1m' }),
    ];
    // No message comes: it has to ask.
    for (const node of process.nodes) node.listen = () => undefined;
    const lockB = await cluster.settle(one.redlock.acquire('b'));
    const granted = process.redlock.acquire(['a', 'b']).then(() => cluster.nowMs);
    await cluster.advance(100);
    const lockA = await cluster.settle(other.redlock.acquire('a'));
    await cluster.failure(process.redlock.acquire(['a', 'c'], { wait: 0 }));
    void lockB.release();
    await cluster.advance(1_000);
    expect(await delayAfterRelease(cluster, lockA, granted)).toBeLessThan(500);
  });

  it('is called after another call of its process was overdue, and then could not try', async () => {
    const cluster = await newCluster();
    const options = { ttl: 10_000, concurrentTries: 1 };
    const [holder, process] = [await cluster.process(options), await cluster.process(options)];
    // No message comes: it has to ask.
    for (const node of process.nodes) node.listen = () => undefined;
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    const granted = process.redlock.acquire('a', { wait: '1m' }).then(() => cluster.nowMs);
    // The lease that was known is over, and was renewed.
    await cluster.advance(11_000);
    const refused = rejection(process.redlock.acquire('a', { wait: 0 }));
    await cluster.advance(200);
    for (const node of process.nodes) node.latencyMs = 350;
    void process.redlock.acquire('b');
    expect(await cluster.settle(refused)).toMatchObject({ causes: [{ reason: 'overloaded' }] });
    for (const node of process.nodes) node.latencyMs = 2;
    await cluster.advance(500);
    expect(await delayAfterRelease(cluster, lock, granted)).toBeLessThan(500);
  });

  it('ends at all servers with the lock that it waited for, also where another one had the vote', async () => {
    const cluster = await newCluster();
    const [holder, first] = [await cluster.process(), await cluster.process()];
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    const granted = first.redlock.acquire('a');
    await cluster.advance(50);
    cluster.occupy('a', [2], 1_000);
    void lock.release();
    const second = await cluster.settle(granted);
    expect(queuesOf(cluster)).toEqual([0, 0, 1]);
    await cluster.settle(second.release());
    await cluster.advance(5);
    expect(queuesOf(cluster)).toEqual([0, 0, 0]);
  });

  it('ends at all servers with the last call of its process that waits', async () => {
    const cluster = await newCluster();
    const [holder, first] = [await cluster.process(), await cluster.process()];
    await cluster.settle(holder.redlock.acquire('a'));
    const calls = [20, 40].map((wait) => first.redlock.tryAcquire('a', { wait }));
    await cluster.settle(calls[0]!);
    expect(queuesOf(cluster)).toEqual([1, 1, 1]);
    await cluster.settle(calls[1]!);
    await cluster.advance(5);
    expect(queuesOf(cluster)).toEqual([0, 0, 0]);
  });
});

describe('a turn for a process in which nobody waits any more', () => {
  it('goes to the next one at once, where the message that it left did not arrive', async () => {
    const cluster = await newCluster(1);
    const options = { wait: '1m', latencyMs: 20 } as const;
    const [holder, left, next] = [
      await cluster.process(options),
      await cluster.process(options),
      await cluster.process(options),
    ];
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    left.nodes[0]!.failNext('lose-request', { command: 'release' });
    await cluster.failure(left.redlock.acquire('a', { wait: 200 }));
    const granted = next.redlock.acquire('a').then(() => cluster.nowMs);
    await cluster.advance(100);
    expect(queuesOf(cluster)).toEqual([2]);
    // The lock is kept for 160 ms, since the servers are 20 ms away.
    expect(await delayAfterRelease(cluster, lock, granted)).toBeLessThan(100);
  });
});

describe('a turn that nobody takes', () => {
  it('does not come again at once: calls with wait: 0 have a free key beside a set that waits for another one', async () => {
    const cluster = await newCluster();
    const [holder, set, hasty] = [
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ wait: '1m' }),
      await cluster.process(),
    ];
    await cluster.settle(holder.redlock.acquire('b'));
    void set.redlock.acquire(['a', 'b']).catch(() => undefined);
    await cluster.advance(1_000);
    const taken: boolean[] = [];
    for (let call = 0; call < 50; call += 1) {
      const lock = await cluster.settle(hasty.redlock.tryAcquire('a'));
      taken.push(lock !== null);
      await cluster.settle(lock?.release() ?? Promise.resolve());
      await cluster.advance(37);
    }
    expect(taken.filter(Boolean).length).toBeGreaterThan(40);
  });
});

describe('the look after a turn that nobody takes', () => {
  it('is not put off by an answer of before that turn', async () => {
    const cluster = await newCluster(1);
    const options = { ttl: 300, wait: '1m' } as const;
    const [holder, stopped, second] = [
      await cluster.process(options),
      await cluster.process(options),
      await cluster.process(options),
    ];
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    void stopped.redlock.acquire('a').catch(() => undefined);
    await cluster.failure(second.redlock.acquire('a', { wait: 20 })); // It listens from now on.
    const [node] = second.nodes as [RecordedNode];
    const wait = node.wait.bind(node);
    const { timers } = cluster.environment;
    node.wait = (request, settle) => {
      node.wait = wait;
      return wait(request, (reply) => void timers.set(() => settle(reply), 20));
    };
    const granted = second.redlock.acquire('a').then(() => cluster.nowMs);
    await cluster.advance(5);
    // Its place is noted, and the answer, with the lease of the holder, on its way.
    expect(queuesOf(cluster)).toEqual([2]);
    stopped.nodes[0]!.freeze();
    expect(await delayAfterRelease(cluster, lock, granted)).toBeLessThan(100);
  });
});

describe('a row of grants in one process', () => {
  it.each([
    ['finds another key in use', false],
    ['knows that another key is in use', true],
  ])('is over where the next caller there %s', async (_, isKnown) => {
    const cluster = await newCluster();
    const [row, other, waiting] = [
      await cluster.process({ wait: '1m' }),
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ wait: '1m' }),
    ];
    await cluster.settle(other.redlock.acquire('b'));
    if (isKnown) {
      void row.redlock.acquire('b').catch(() => undefined);
      await cluster.advance(10);
    }
    const lock = await cluster.settle(row.redlock.acquire('a'));
    void row.redlock.acquire(['a', 'b']).catch(() => undefined);
    const granted = waiting.redlock.acquire('a').then(() => cluster.nowMs);
    await cluster.advance(10);
    expect(await delayAfterRelease(cluster, lock, granted)).toBeLessThan(GRACE_MS);
  });
});

describe('a row of grants whose next caller gives up', () => {
  it('is over, also where a set of its process goes on to wait for another key', async () => {
    const cluster = await newCluster();
    const [row, other, waiting] = [
      await cluster.process({ wait: '1m' }),
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ wait: '1m' }),
    ];
    await cluster.settle(other.redlock.acquire('b'));
    void row.redlock.acquire('b').catch(() => undefined);
    await cluster.advance(10);
    void row.redlock.acquire(['a', 'b']).catch(() => undefined);
    const lock = await cluster.settle(row.redlock.acquire('a'));
    const controller = new AbortController();
    void row.redlock.acquire('a', { signal: controller.signal }).catch(() => undefined);
    const granted = waiting.redlock.acquire('a').then(() => cluster.nowMs);
    await cluster.advance(10);
    const releasedAtMs = cluster.nowMs;
    void lock.release();
    controller.abort();
    expect((await cluster.settle(granted)) - releasedAtMs).toBeLessThan(GRACE_MS);
  });
});

describe('servers in quarantine', () => {
  it('give nobody a turn, since they do not vote, and sets do not exchange turns again and again', async () => {
    const cluster = await newCluster(5);
    const options = { ttl: 2_000, maxTtl: 2_000, restartGuard: true, wait: 3_000 };
    const processes: LockProcess[] = [];
    for (const latencyMs of [1, 2, 3, 1])
      processes.push(await cluster.process({ ...options, latencyMs }));
    await cluster.advance(2_500);
    const waitsMs: [single: number[], sets: number[]] = [[], []];
    const lockOf = (index: number, key: string) =>
      cluster.settle(processes[index]!.redlock.acquire(key, { wait: 0 }));
    const ask = async (index: number, keys: readonly string[], wait = 3_000) => {
      const askedAtMs = cluster.nowMs;
      const lock = await processes[index]!.redlock.acquire(keys, { wait });
      waitsMs[keys.length === 1 ? 0 : 1].push(cluster.nowMs - askedAtMs);
      await lock.release();
    };
    for (let round = 0; round < 5; round += 1) {
      const [used, free] = [await lockOf(3, 'used'), await lockOf(2, 'free')];
      for (const server of cluster.servers.slice(3)) server.flush();
      // Sets are first in the line of the free key, which they can't have yet.
      const asked = [ask(2, ['free', 'used'])];
      await cluster.advance(12);
      await cluster.settle(free.release());
      for (const pauseMs of [16 + round, 2]) {
        asked.push(ask(0, ['free', 'used']));
        await cluster.advance(pauseMs);
      }
      asked.push(ask(2, ['free'], 300));
      await cluster.advance(35);
      asked.push(ask(1, ['free']));
      await cluster.advance(900);
      await cluster.settle(used.release());
      await cluster.settle(Promise.all(asked));
      await cluster.advance(2_600);
    }
    expect(waitsMs.map(({ length }) => length)).toEqual([10, 15]);
    expect(Math.max(...waitsMs[0])).toBeLessThan(250);
    // The other key was in use for 970 ms of it.
    expect(Math.max(...waitsMs[1])).toBeLessThan(1_500);
  });
});
