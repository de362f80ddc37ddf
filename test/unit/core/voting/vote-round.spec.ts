import { describe, expect, it } from '@jest/globals';
import type { LockBusyError, QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();

describe('the causes of a failed try', () => {
  it('say when each node answered, and of the others when the round ended', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    nodes.forEach((node, index) => (node.latencyMs = 10 * (index + 1)));
    const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect((error as LockBusyError).causes).toMatchObject([
      { address: 'node0:6379', reason: 'held', elapsedMs: 10 },
      { address: 'node1:6379', reason: 'held', elapsedMs: 20 },
      { address: 'node2:6379', reason: 'timeout', elapsedMs: 20 },
    ]);
  });

  it('say how long the holder has it, or that it has it without end', async () => {
    const { cluster, redlock } = await newProcess();
    cluster.occupy('a', [0], 5_000);
    cluster.servers[1]!.state.locks.set('lock:a', 'foreign', null);
    const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    const [first, second] = (error as LockBusyError).causes;
    expect(first!.message).toMatch(/^held by another holder for (4999|5000) ms more$/);
    expect(second!.message).toBe('held by another holder for ever (no TTL)');
  });

  it('keep what a node said when the votes of the others were too slow', async () => {
    const { cluster, redlock, nodes } = await newProcess({ ttl: 1_000, nodeTimeout: 300 });
    cluster.occupy('a', [2], 60_000);
    nodes[2]!.latencyMs = 1;
    const acquired = redlock.acquire('a', { wait: 0 }).catch((error: unknown) => error);
    await cluster.advance(1.5);
    cluster.environment.skip(900);
    const error = await cluster.settle(acquired);
    expect((error as QuorumUnavailableError).causes).toMatchObject([
      { address: 'node0:6379', reason: 'timeout' },
      { address: 'node1:6379', reason: 'timeout' },
      { address: 'node2:6379', reason: 'held' },
    ]);
  });
});

describe('a round', () => {
  it('waits for none of several nodes that are silent, where the others are a quorum', async () => {
    const { cluster, redlock } = await newProcess({}, 5);
    for (const index of [3, 4]) cluster.servers[index]!.freeze();
    await cluster.settle(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(400);
    cluster.occupy('b', [0], 60_000);
    const startedAtMs = cluster.nowMs;
    const error = await cluster.failure(redlock.acquire('b', { wait: 0 }));
    expect(error).toMatchObject({ code: 'LOCK_BUSY' });
    expect(cluster.nowMs - startedAtMs).toBe(2);
  });

  it('does not wait for slow nodes that can no longer decide it', async () => {
    const { cluster, redlock, nodes } = await newProcess({}, 5);
    cluster.servers[4]!.freeze();
    await cluster.settle(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(400);
    nodes[0]!.failNext({ error: 'OOM command not allowed' }, { command: 'acquire' });
    cluster.occupy('b', [1], 60_000);
    for (const index of [2, 3]) nodes[index]!.latencyMs = 50;
    const startedAtMs = cluster.nowMs;
    await cluster.failure(redlock.acquire('b', { wait: 0 }));
    expect(cluster.nowMs - startedAtMs).toBe(2);
  });

  it('knows a node that says yes before it is left as one that may hold the lock', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    nodes[0]!.failNext({ error: 'OOM command not allowed' }, { command: 'acquire' });
    const lock = await cluster.settle(redlock.acquire('a'));
    expect(cluster.holdersOf('a')).toEqual([undefined, lock.token.holder, lock.token.holder]);
    nodes[0]!.extend = (request, settle) => settle(cluster.servers[0]!.extend(request));
    await cluster.settle(lock.extend());
    expect(cluster.holdersOf('a')[0]).toBe(lock.token.holder);
    await cluster.settle(lock.release());
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });
});
