import { describe, expect, it } from '@jest/globals';
import type { Redlock } from '../../../../lib/core/redlock.ts';
import type { AcquireOptions } from '../../../../lib/core/options/options.ts';
import { clusterFactory } from '../support/cluster.ts';
import type { Cluster, LockProcess, ProcessOptions } from '../support/cluster.ts';

const newCluster = clusterFactory();
/** So long a key is kept for a process that is two ms away. */
const GRACE_MS = 20;

/** The tries that a process made: one holder each. */
const tries = ({ nodes }: LockProcess) =>
  new Set(nodes.flatMap((node) => node.asked('acquire').map(({ request }) => request.holder))).size;
const queuesOf = ({ servers }: Cluster) =>
  servers.map(({ state }) => (state.queues.get('lock:a') ?? []).length);

/** The first process holds `a` for long; these others wait for it, each since 50 ms before the next, for so long. */
async function contended(waits: readonly AcquireOptions[], size = 3, options: ProcessOptions = {}) {
  const cluster = await newCluster(size);
  const holder = await cluster.process({ ttl: 60_000 });
  const lock = await cluster.settle(holder.redlock.acquire('a'));
  const waiting: { process: LockProcess; granted: Promise<number> }[] = [];
  for (const wait of waits) {
    const process = await cluster.process({ ttl: 60_000, wait: '1m', ...options });
    const granted = process.redlock.acquire('a', wait).then(() => cluster.nowMs);
    granted.catch(() => undefined);
    waiting.push({ process, granted });
    await cluster.advance(50);
  }
  let releasedAtMs = 0;
  const release = () => {
    releasedAtMs = cluster.nowMs;
    void lock.release();
  };
  /** How long after the release this process had the lock. */
  const grantedAfterMs = async (index: number) =>
    (await cluster.settle(waiting[index]!.granted)) - releasedAtMs;
  return { cluster, holder, lock, waiting, release, grantedAfterMs };
}

describe('a release in another process', () => {
  it.each([3, 5])('wakes the first in line, for one try, and no other: %i nodes', async (size) => {
    const { cluster, waiting, release, grantedAfterMs } = await contended([{}, {}, {}], size);
    await cluster.advance(5_000);
    const before = waiting.map(({ process }) => tries(process));
    release();
    // A round trip for the release, half of one for its message, one for the try.
    expect(await grantedAfterMs(0)).toBeLessThan(6);
    await cluster.advance(1_000);
    const made = waiting.map(({ process }, index) => tries(process) - before[index]!);
    expect([before, made]).toEqual([
      [1, 1, 1],
      [1, 0, 0],
    ]);
  });
});

describe('a place in line', () => {
  it('is never taken by a call with wait: 0, which takes no turn of another one either', async () => {
    const { cluster, waiting, release, grantedAfterMs } = await contended([{}, { wait: 0 }]);
    const [first, { process: hasty, granted }] = [waiting[0]!.process, waiting[1]!];
    expect(await cluster.failure(granted)).toMatchObject({ code: 'LOCK_BUSY' });
    expect([queuesOf(cluster), hasty.nodes[0]!.asked('wait')]).toEqual([[1, 1, 1], []]);
    for (const node of first.nodes) node.freeze();
    release();
    await cluster.advance(3);
    expect(await cluster.settle(hasty.redlock.tryAcquire('a'))).toBeNull();
    for (const node of first.nodes) node.resume();
    expect(await grantedAfterMs(0)).toBeLessThan(GRACE_MS);
  });

  it('of a process that stopped costs its grace, and nothing where its connections are closed', async () => {
    for (const [isClosed, ms] of [[false, GRACE_MS + 10] as const, [true, 6] as const]) {
      const { cluster, waiting, release, grantedAfterMs } = await contended([{}, {}, {}]);
      const { nodes } = waiting[0]!.process;
      for (const node of nodes) if (!isClosed) node.freeze();
      if (isClosed) await Promise.all(nodes.map((node) => node.close()));
      await cluster.advance(10);
      release();
      expect(await grantedAfterMs(1)).toBeLessThan(ms);
      for (const node of nodes) node.resume();
    }
  });
});

describe('servers in quarantine', () => {
  it('give nobody a turn, since they do not vote, and sets do not exchange turns again and again', async () => {
    const cluster = await newCluster(5);
    const options = { ttl: 2_000, maxTtl: 2_000, restartGuard: true, wait: 3_000 };
    const processes: LockProcess[] = [];
    for (let count = 0; count < 4; count += 1) processes.push(await cluster.process(options));
    await cluster.advance(2_000);
    const [, second, third, holder] = processes.map(({ redlock }) => redlock);
    const waitsMs: [single: number[], sets: number[]] = [[], []];
    const ask = async (redlock: Redlock | undefined, ...keys: string[]) => {
      const askedAtMs = cluster.nowMs;
      const lock = await redlock!.acquire(keys);
      waitsMs[keys.length === 1 ? 0 : 1].push(cluster.nowMs - askedAtMs);
      await lock.release();
    };
    for (let round = 0; round < 5; round += 1) {
      const used = await cluster.settle(holder!.acquire('used'));
      const free = await cluster.settle(third!.acquire('free', { wait: 0 }));
      for (const server of cluster.servers.slice(3)) server.flush();
      // Sets are first in the line of the free key, which they can't have yet.
      const asked = [ask(third, 'free', 'used')];
      await cluster.advance(12);
      await cluster.settle(free.release());
      for (const { redlock } of processes.slice(0, 2)) asked.push(ask(redlock, 'free', 'used'));
      await cluster.advance(20);
      asked.push(ask(second, 'free'));
      await cluster.advance(40);
      asked.push(ask(third, 'free'));
      await cluster.advance(800);
      await cluster.settle(used.release());
      await cluster.settle(Promise.all(asked));
      await cluster.advance(2_500);
    }
    expect(waitsMs.map(({ length }) => length)).toEqual([10, 15]);
    expect(Math.max(...waitsMs[0])).toBeLessThan(250);
    // The other key was in use for 870 ms of it. Sets that take turns at the same moments would wait for longer than 1,800 ms.
    expect(Math.max(...waitsMs[1])).toBeLessThan(1_500);
  });
});
