import { describe, expect, it } from '@jest/globals';
import type { NodeCause } from '../../../../lib/core/errors.ts';
import { clusterFactory, rejection } from '../support/cluster.ts';

const newCluster = clusterFactory();

describe('a release that cannot be delivered', () => {
  it('is repeated as soon as the node has been joined again', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a', { ttl: 3_000 }));
    nodes[2]?.disconnect();
    await cluster.settle(lock.release());
    expect(cluster.owners('a')).toEqual([undefined, undefined, lock.token.holder]);
    await cluster.advance(50);
    expect(cluster.holders('a')).toBe(0);
  });

  it('is kept while the server is down, until every key has expired, and not longer', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes, heard } = await cluster.process({ ttl: 3_000 });
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[0]?.kill();
    await cluster.advance(5);
    await cluster.settle(lock.release());
    expect(heard('release-incomplete')).toMatchObject([
      { keys: ['a'], token: lock.token.value, causes: [{ reason: 'unreachable' }] },
    ]);
    await cluster.advance(3_500);
    const tried = nodes[0]!.asked('release').length;
    await cluster.advance(5_000);
    expect(nodes[0]?.asked('release')).toHaveLength(tried);
  });

  it('ends the release when all that were told have answered, without the node timeout', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes, heard } = await cluster.process();
    // Its refusal is there before the votes of the others, so it is known not to hold the lock.
    nodes[2]!.latencyMs = 1;
    nodes[2]!.failNext({ error: 'OOM command not allowed' }, { command: 'acquire' });
    const lock = await cluster.settle(redlock.acquire('a'));
    nodes[1]!.failNext({ error: 'BUSY running a script' }, { command: 'release' });
    const startedAtMs = cluster.nowMs;
    await cluster.settle(lock.release());
    expect(cluster.nowMs - startedAtMs).toBe(2);
    expect(heard('release-incomplete')).toMatchObject([{ causes: [{ address: 'node1:6379' }] }]);
    expect(nodes[2]!.asked('release')).toEqual([]);
  });

  it('is repeated when the server refused it', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    nodes[0]?.failNext({ error: 'BUSY running a script' }, { command: 'release', times: 2 });
    await cluster.settle(lock.release());
    expect(cluster.holders('a')).toBe(1);
    await cluster.advance(1_000);
    expect(cluster.holders('a')).toBe(0);
  });

  it('goes over the next connection when this one closed without an answer', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    nodes[0]?.freeze();
    const released = lock.release();
    await cluster.advance(10);
    nodes[0]?.disconnect();
    nodes[0]?.resume();
    await cluster.settle(released);
    await cluster.advance(100);
    expect(cluster.holders('a')).toBe(0);
  });
});

describe('an acquire whose outcome is unknown because its connection closed', () => {
  it('is released over the next connection, and once more a node timeout later', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process();
    const [node] = nodes;
    node!.freeze();
    const outcome = rejection(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(10);
    // Our side ends the connection: what was sent is still on its way.
    node!.reset();
    await cluster.settle(outcome);
    const holder = node!.asked('acquire')[0]?.request.holder;
    node!.resume();
    await cluster.advance(1_000);
    const releases = node!.asked('release').filter(({ request }) => request.holder === holder);
    expect(releases.length).toBeGreaterThanOrEqual(2);
    const [last, beforeLast] = releases.reverse();
    expect(last!.atMs - beforeLast!.atMs).toBeGreaterThanOrEqual(300);
    expect(cluster.holders('a')).toBe(0);
  });

  it('leaves no orphan when it arrives after the first release', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process({ ttl: 30_000, nodeTimeout: 300 });
    const [node] = nodes;
    // The request is stuck on its way; everything sent later is faster, over the next connection.
    node!.latencyMs = 500;
    const outcome = rejection(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(1);
    node!.latencyMs = 2;
    node!.reset();
    await cluster.settle(outcome);
    await cluster.advance(100);
    expect(node!.asked('release').length).toBeGreaterThan(0);
    await cluster.advance(149);
    // The lost acquire is executed now, 250 ms after it was sent: nobody knows of it.
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(1);
    await cluster.advance(300);
    expect(cluster.holders('a')).toBe(0);
  });
});

describe('release', () => {
  it('resolves when a quorum answered, however slow the others are', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[2]?.freeze();
    nodes[1]!.latencyMs = 20;
    const startedAtMs = cluster.nowMs;
    await cluster.settle(lock.release());
    expect(cluster.nowMs - startedAtMs).toBe(20);
  });

  it('resolves at once when nobody can be told, and after the node timeout when nobody answers', async () => {
    const cluster = await newCluster(3);
    const { redlock, heard } = await cluster.process();
    const [first, second] = await cluster.settle(
      Promise.all([redlock.acquire('a'), redlock.acquire('b')]),
    );
    for (const server of cluster.servers) server.freeze();
    let startedAtMs = cluster.nowMs;
    await cluster.settle(first.release());
    expect(cluster.nowMs - startedAtMs).toBe(300);
    for (const server of cluster.servers) server.kill();
    await cluster.advance(5);
    startedAtMs = cluster.nowMs;
    await cluster.settle(second.release());
    expect(cluster.nowMs - startedAtMs).toBe(0);
    expect(heard('release-incomplete').map(({ keys }) => keys[0])).toEqual(['a', 'b']);
    expect(heard('release-incomplete')[1]?.causes).toMatchObject(
      [0, 1, 2].map((index): Partial<NodeCause> => ({
        address: `node${index}:6379`,
        reason: 'unreachable',
        message: 'the server died',
      })),
    );
  });

  it('counts answers, not deletions', async () => {
    const cluster = await newCluster(3);
    const { redlock, heard } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    for (const server of cluster.servers) server.deleteLock('lock:a');
    await cluster.settle(lock.release());
    expect(heard('release-incomplete')).toEqual([]);
  });

  it('deletes only what is ours', async () => {
    const cluster = await newCluster(3);
    const { redlock } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.settle(lock.release());
    expect(cluster.owners('a')).toEqual(['foreign', 'foreign', undefined]);
  });

  it('is sent once, however often it is called', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes, heard } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(Promise.all([lock.release(), lock.release()]));
    await cluster.settle(lock[Symbol.asyncDispose]());
    expect(nodes.map((node) => node.asked('release').length)).toEqual([1, 1, 1]);
    expect(heard('released')).toHaveLength(1);
  });
});
