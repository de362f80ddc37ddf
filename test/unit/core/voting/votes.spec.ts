import { describe, expect, it } from '@jest/globals';
import { LockBusyError, QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import { clusterFactory, processFactory } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();
const sizes = [1, 2, 3, 4, 5, 6, 7];
const majority = (size: number) => Math.floor(size / 2) + 1;

describe.each(sizes)('with %i nodes', (size) => {
  it('any majority grants, with a token, on every node that lives', async () => {
    const { cluster, redlock } = await newProcess({}, size);
    for (const server of cluster.servers.slice(majority(size))) server.kill();
    await cluster.advance(5);
    const lock = await cluster.settle(redlock.acquire('a', { wait: 0 }));
    expect(cluster.holders('a')).toBe(majority(size));
    expect(lock.token.value).toBeGreaterThan(0);
  });

  it('one node less than a majority is an outage, and nothing stays behind', async () => {
    const { cluster, redlock } = await newProcess({}, size);
    for (const server of cluster.servers.slice(majority(size) - 1)) server.kill();
    await cluster.advance(5);
    const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    expect((error as QuorumUnavailableError).causes).toHaveLength(size);
    await cluster.advance(5);
    expect(cluster.holders('a')).toBe(0);
  });

  it('every division of the nodes between two holders excludes correctly', async () => {
    const { cluster, redlock } = await newProcess({}, size);
    for (let mask = 0; mask < 2 ** size; mask += 1) {
      const key = `key${mask}`;
      const foreign = sizes.map((_, index) => index).filter((index) => (mask & (1 << index)) !== 0);
      cluster.occupy(key, foreign, 60_000);
      const free = size - foreign.length;
      const outcome = await cluster.settle(
        redlock.acquire(key, { wait: 0 }).then(
          ({ token }) => token.holder,
          (error: unknown) => error,
        ),
      );
      await cluster.advance(3);
      const granted = free >= majority(size);
      const ours = cluster.holdersOf(key).filter((owner) => owner === outcome).length;
      expect([key, outcome instanceof LockBusyError, ours, cluster.holders(key)]).toEqual([
        key,
        !granted,
        granted ? free : 0,
        granted ? size : foreign.length,
      ]);
    }
  });

  it('the decision waits for the deciding vote only, not for slower nodes', async () => {
    const { cluster, redlock, nodes } = await newProcess({}, size);
    for (const [index, node] of nodes.entries()) node.latencyMs = 10 * (index + 1);
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.acquire('a', { wait: 0 }));
    expect(cluster.nowMs - startedAtMs).toBe(10 * majority(size));
  });

  it('a loss is decided as soon as no majority is possible', async () => {
    const { cluster, redlock, nodes } = await newProcess({}, size);
    cluster.occupy(
      'a',
      Array.from({ length: size }, (_, index) => index),
      60_000,
    );
    for (const [index, node] of nodes.entries()) node.latencyMs = 10 * (index + 1);
    const startedAtMs = cluster.nowMs;
    await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect(cluster.nowMs - startedAtMs).toBe(10 * (size - majority(size) + 1));
  });
});

describe('frozen nodes', () => {
  it.each([
    [3, 1],
    [4, 1],
    [5, 2],
    [7, 3],
  ])('do not delay a grant: %i nodes, %i frozen', async (size, frozen) => {
    const { cluster, redlock } = await newProcess({}, size);
    for (const server of cluster.servers.slice(0, frozen)) server.freeze();
    for (let round = 0; round < 3; round += 1) {
      const startedAtMs = cluster.nowMs;
      const lock = await cluster.settle(redlock.acquire('a', { wait: 0 }));
      expect(cluster.nowMs - startedAtMs).toBe(2);
      await cluster.settle(lock.release());
      expect(cluster.nowMs - startedAtMs).toBe(4);
      await cluster.advance(400);
    }
  });

  it('a frozen majority costs one node timeout, and says which nodes did not answer', async () => {
    const { cluster, redlock } = await newProcess();
    cluster.servers[0]?.freeze();
    cluster.servers[1]?.freeze();
    const startedAtMs = cluster.nowMs;
    const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect(cluster.nowMs - startedAtMs).toBe(300);
    expect((error as QuorumUnavailableError).causes).toMatchObject([
      { address: 'node0:6379', reason: 'timeout', elapsedMs: 300 },
      { address: 'node1:6379', reason: 'timeout', elapsedMs: 300 },
    ]);
    for (const server of cluster.servers) server.resume();
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });
});

describe('a quorum override', () => {
  it('asks for more than a majority', async () => {
    const { cluster, redlock } = await newProcess({ quorum: 4 }, 5);
    cluster.occupy('three', [0, 1], 60_000);
    cluster.occupy('four', [0], 60_000);
    expect(await cluster.settle(redlock.tryAcquire('three'))).toBeNull();
    const lock = await cluster.settle(redlock.acquire('four', { wait: 0 }));
    expect(lock.isHeld).toBe(true);
  });

  it('loses the lock as soon as it can no longer be reached', async () => {
    const { cluster, redlock } = await newProcess({ quorum: 4 }, 5);
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.occupy('a', [0, 1], 60_000);
    await expect(cluster.settle(lock.extend())).rejects.toMatchObject({ reason: 'taken' });
  });
});

describe('the elapsed time', () => {
  it('is taken off the validity', async () => {
    const { cluster, redlock } = await newProcess({ ttl: 3_000, latencyMs: 100 });
    const lock = await cluster.settle(redlock.acquire('a'));
    // ttl - elapsed - (1 % + 2 ms)
    expect(lock.remainingMs).toBeCloseTo(3_000 - 100 - 32, 6);
  });

  it('a grant that took nearly the whole ttl is no grant', async () => {
    const cluster = await newCluster(3);
    const process = await cluster.process({ ttl: 1_000, nodeTimeout: 300 });
    const { redlock, nodes } = process;
    const acquired = redlock.acquire('a', { wait: 0 }).catch((error: unknown) => error);
    // The answers are there in time, but the process only runs again after 900 ms: as in a long pause.
    await cluster.advance(1.5);
    cluster.environment.skip(900);
    const error = await cluster.settle(acquired);
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    expect((error as QuorumUnavailableError).message).toContain(
      'voted, but the round took too long for the ttl',
    );
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
    expect(nodes[0]?.asked('release')).toMatchObject([{ request: { granted: false } }]);
  });

  it('slow quorums are told, at most once a minute', async () => {
    const { cluster, redlock, received } = await newProcess({ ttl: 3_000, nodeTimeout: 1_000 }, 1);
    const [process] = [await cluster.process({ latencyMs: 400, nodeTimeout: 1_000 })];
    for (let round = 0; round < 3; round += 1) {
      const lock = await cluster.settle(process.redlock.acquire('a'));
      await cluster.settle(lock.release());
    }
    expect(process.received('slow-quorum')).toEqual([
      { type: 'slow-quorum', roundTripMs: 400, ttlMs: 3_000 },
    ]);
    await cluster.settle(redlock.acquire('b'));
    expect(received('slow-quorum')).toEqual([]);
  });
});
