import { describe, expect, it } from '@jest/globals';
import type { Redlock } from '../../../../lib/core/redlock.ts';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();

describe('release', () => {
  it('resolves when a quorum answered, however slow the others are', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[2]?.freeze();
    nodes[1]!.latencyMs = 20;
    const startedAtMs = cluster.nowMs;
    await cluster.settle(lock.release());
    expect(cluster.nowMs - startedAtMs).toBe(20);
  });

  it('resolves after the node timeout when no node answers, and at once when none can be asked', async () => {
    const { cluster, redlock, received } = await newProcess();
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
    const all = (cause: object) => [0, 1, 2].map((i) => ({ ...cause, address: `node${i}:6379` }));
    const timeouts = all({ reason: 'timeout', elapsedMs: 300 });
    const deaths = all({ reason: 'unreachable', message: 'the server died' });
    expect(received('release-incomplete')).toMatchObject([
      { keys: ['a'], token: first.token.value, causes: timeouts },
      { keys: ['b'], causes: deaths },
    ]);
  });

  it('is kept while a server is down until the lock has expired there, and not longer', async () => {
    const { cluster, redlock, node, received } = await newProcess({}, 1);
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[0]?.kill();
    await cluster.advance(5);
    await cluster.settle(lock.release());
    expect(received('release-incomplete')).toHaveLength(1);
    await cluster.advance(3_500);
    const tries = node.asked('release').length;
    await cluster.advance(5_000);
    expect(node.asked('release')).toHaveLength(tries);
  });
});

describe('a release of a section', () => {
  it('leaves with the vote of the caller that waits for the key', async () => {
    const { cluster, redlock, node } = await newProcess();
    const noWork = () => undefined;
    const sections = [redlock.withLock('a', noWork), redlock.withLock('a', noWork)];
    await cluster.settle(Promise.all(sections));
    expect(node.asked('release')[0]?.atMs).toBe(node.asked('acquire')[1]?.atMs);
  });
});

describe('minHold', () => {
  it('keeps the lock on the nodes although the work ended sooner, and is not extended', async () => {
    const { cluster, redlock, node } = await newProcess({ minHold: '2s' });
    const other = await cluster.process();
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.withLock('a', () => 'quick'));
    expect(cluster.nowMs - startedAtMs).toBeLessThan(10);
    await cluster.advance(1_950);
    expect(await cluster.settle(other.redlock.tryAcquire('a'))).toBeNull();
    await cluster.advance(100);
    expect(await cluster.settle(other.redlock.tryAcquire('a'))).not.toBeNull();
    expect(node.asked('extend')).toEqual([]);
  });

  it.each([
    ['its work has ended', (redlock: Redlock) => redlock.withLock('a', () => 'quick')],
    ['its process closes', (redlock: Redlock) => redlock.acquire('a').then(() => redlock.close())],
  ])(
    'is all that nodes keep of a longer ttl when %s, so that no end of the process prolongs it',
    async (_, end) => {
      const { cluster, redlock, nodes } = await newProcess({ ttl: '1m', minHold: '3s' });
      await cluster.settle<unknown>(end(redlock));
      await cluster.advance(5);
      for (const node of nodes) node.freeze();
      await cluster.advance(2_980);
      expect(cluster.holders('a')).toBe(3);
      await cluster.advance(100);
      expect(cluster.holders('a')).toBe(0);
    },
  );

  it('keeps the lock from callers of its own process, too, until the nodes give it up, where it is as long as the ttl', async () => {
    const { cluster, redlock, node } = await newProcess({ minHold: '1m', maxTtl: '1m' });
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.withLock('a', () => 'quick'));
    await cluster.settle(redlock.acquire('a', { wait: '2m' }));
    expect(cluster.nowMs - startedAtMs).toBeLessThan(60_020);
    expect(node.asked('acquire')).toHaveLength(2);
  });

  it('delays nothing when the work took longer', async () => {
    const { cluster, redlock } = await newProcess({ minHold: '1s' });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(1_500);
    await cluster.settle(lock.release());
    expect(cluster.holders('a')).toBe(0);
  });
});
