import { describe, expect, it } from '@jest/globals';
import { clusterFactory, processFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();
const DAY_MS = 86_400_000;

/** Ballots that a process sent to one of its nodes. */
function ballots({ nodes }: LockProcess, node = 0): number[] {
  return nodes[node]!.asked('acquire').map(({ request }) => request.ballot);
}

/** On these servers an earlier holder had a clock that is so far ahead. */
function raiseFence(cluster: Cluster, servers: readonly number[], aheadMs: number): void {
  const fence = cluster.environment.clock.wallMicros() + aheadMs * 1_000;
  for (const index of servers) {
    const { floors } = cluster.servers[index]!.state;
    floors.set('lock:#floor:a', { floor: fence, previous: 0 }, 10 * DAY_MS);
  }
}

describe('a node that accepted an earlier ballot only', () => {
  it('is released with the lock, although it refused the ballot that won', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    raiseFence(cluster, [1, 2], 60_000);
    const acquired = redlock.acquire('a', { wait: 0 });
    // The first ballot has been executed, the second has not been sent.
    await cluster.advance(1.5);
    nodes[0]!.failNext({ error: 'OOM command not allowed' }, { command: 'acquire' });
    const lock = await cluster.settle(acquired);
    expect(cluster.holdersOf('a')).toEqual(Array.from({ length: 3 }, () => lock.token.holder));
    await cluster.settle(lock.release());
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });

  it('is released before a lower ballot, which has another holder, follows', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 3 * DAY_MS });
    raiseFence(cluster, [2], 2.5 * DAY_MS);
    const [before] = cluster.servers[2]!.state.floors.names();
    const fence = cluster.servers[2]!.state.floors.get(before!);
    const lock = await cluster.settle(ahead.redlock.acquire('a', { wait: 0 }));
    expect(ballots(ahead, 2)[0]).toBeGreaterThan(lock.token.value);
    await cluster.advance(10);
    expect(cluster.holdersOf('a')).toEqual([lock.token.holder, lock.token.holder, undefined]);
    expect(cluster.servers[2]!.state.floors.get(before!)?.floor).toBe(fence?.floor);
  });
});

describe('a fence that is ahead of our clock', () => {
  it('is learnt from the nodes that refuse us for a holder: after it one ballot is enough', async () => {
    const cluster = await newCluster(3);
    const holder = await cluster.process({ wallErrorMs: 60_000 });
    const waiter = await cluster.process();
    const first = await cluster.settle(holder.redlock.acquire('a'));
    await cluster.failure(waiter.redlock.acquire('a', { wait: 0 }));
    await cluster.settle(first.release());
    const second = await cluster.settle(waiter.redlock.acquire('a', { wait: 0 }));
    expect(ballots(waiter).slice(1)).toEqual([second.token.value]);
  });

  it('is learnt from the nodes that refuse our ballot, also where the try failed', async () => {
    const cluster = await newCluster(3);
    const waiter = await cluster.process();
    raiseFence(cluster, [1], 60_000);
    cluster.occupy('a', [0, 2], 60_000);
    await cluster.failure(waiter.redlock.acquire('a', { wait: 0 }));
    for (const index of [0, 2]) cluster.servers[index]!.deleteLock('lock:a');
    waiter.nodes[0]!.failNext({ error: 'OOM command not allowed' }, { command: 'acquire' });
    const lock = await cluster.settle(waiter.redlock.acquire('a', { wait: 0 }));
    expect(ballots(waiter, 1).slice(1)).toEqual([lock.token.value]);
  });
});

describe('a try that is aborted', () => {
  it('while one answer is open makes no further ballot, though the others ask for one', async () => {
    const cluster = await newCluster(3);
    const waiter = await cluster.process();
    waiter.nodes[2]!.latencyMs = 80;
    raiseFence(cluster, [1], 60_000);
    const controller = new AbortController();
    const { signal } = controller;
    const aborted = rejection(waiter.redlock.acquire('a', { signal, wait: '1m' }));
    await cluster.advance(10);
    controller.abort(new Error('cancelled'));
    await cluster.settle(aborted);
    await cluster.advance(200);
    expect(ballots(waiter)).toHaveLength(1);
    expect(cluster.holders('a')).toBe(0);
  });
});
