import { describe, expect, it } from '@jest/globals';
import type { Redlock } from '../../../../lib/core/redlock.ts';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();
const BUSY = { error: 'BUSY running a script' };

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

  it('resolves when all that were asked have answered, of those that may hold the lock', async () => {
    const { cluster, redlock, nodes, received } = await newProcess();
    // Its refusal is there before the votes of the others, so it is known not to hold the lock.
    nodes[2]!.latencyMs = 1;
    nodes[2]!.failNext({ error: 'OOM command not allowed' }, { command: 'acquire' });
    const lock = await cluster.settle(redlock.acquire('a'));
    nodes[1]!.failNext(BUSY, { command: 'release' });
    const startedAtMs = cluster.nowMs;
    await cluster.settle(lock.release());
    expect([cluster.nowMs - startedAtMs, nodes[2]!.asked('release')]).toEqual([2, []]);
    expect(received('release-incomplete')).toMatchObject([{ causes: [{ address: 'node1:6379' }] }]);
  });

  it('counts answers, not deletions, and deletes only what is its own', async () => {
    const { cluster, redlock, received } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.settle(lock.release());
    expect(received('release-incomplete')).toEqual([]);
    expect(cluster.holdersOf('a')).toEqual(['foreign', 'foreign', undefined]);
  });

  it('is sent once, however often it is called', async () => {
    const { cluster, redlock, nodes, received } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(Promise.all([lock.release(), lock.release()]));
    await cluster.settle(lock[Symbol.asyncDispose]());
    expect(nodes.map((each) => each.asked('release').length)).toEqual([1, 1, 1]);
    expect(received('released')).toHaveLength(1);
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

describe('a release that nobody waits for', () => {
  const noWork = () => undefined;

  it('waits for the vote that follows it in the same tick, once one has followed at once', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    const mayWait = () =>
      nodes.map((each) => each.asked('release').map(({ request }) => request.mayWait));
    const inARow = async () => {
      for (const key of ['a', 'b', 'c']) await redlock.withLock(key, noWork);
    };
    await cluster.settle(inARow());
    expect(mayWait()).toEqual(nodes.map(() => [false, true, true]));
    // Nothing came after the last one.
    await cluster.advance(1);
    await cluster.settle(redlock.withLock('d', noWork));
    expect(mayWait()).toEqual(nodes.map(() => [false, true, true, false]));
  });

  it.each([
    [
      'by its handle',
      async (redlock: Redlock, key: string) => (await redlock.acquire(key)).release(),
    ],
    [
      'by a section that confirms it',
      (redlock: Redlock, key: string) => redlock.withLock(key, noWork, { release: 'confirmed' }),
    ],
  ])('does not wait where somebody does: %s', async (_how, lockAndRelease) => {
    const { cluster, redlock, node } = await newProcess({}, 1);
    const inARow = async () => {
      await redlock.withLock('a', noWork);
      await redlock.withLock('b', noWork);
      // Its vote follows the release of the one before, so that the next release is expected to be followed as well.
      await lockAndRelease(redlock, 'c');
    };
    await cluster.settle(inARow());
    const mayWait = node.asked('release').map(({ request }) => request.mayWait);
    expect(mayWait).toEqual([false, true, false]);
  });
});

describe('a release while callers of this process wait for its key', () => {
  const mayWaitOf = async (lock: (redlock: Redlock) => Promise<unknown>) => {
    const { cluster, redlock, node } = await newProcess({}, 1);
    const votes: number[] = [];
    const call = async () => {
      await lock(redlock);
      votes.push(node.asked('acquire').length);
    };
    await cluster.settle(Promise.all([call(), call(), call()]));
    // Of the two that were followed.
    const requests = node.asked('release').slice(0, 2);
    return { mayWait: requests.map(({ request }) => request.mayWait), votes };
  };

  it('leaves with the vote of the next one, before its caller goes on', async () => {
    const { mayWait, votes } = await mayWaitOf((redlock) => redlock.withLock('a', () => undefined));
    expect(mayWait).toEqual([true, true]);
    expect(votes).toEqual([2, 3, 3]);
  });

  it('leaves at once by its handle: work that follows it in the same tick does not hold it up', async () => {
    const { mayWait } = await mayWaitOf(async (redlock) => (await redlock.acquire('a')).release());
    expect(mayWait).toEqual([false, false]);
  });
});

describe('a release while an extension waits for nodes to be joined again', () => {
  it.each(['release', 'drain'] as const)('is the last word: %s', async (end) => {
    const { cluster, redlock, node } = await newProcess({ latencyMs: 20 });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(950);
    for (const server of cluster.servers) server.forgetScripts();
    const extension = lock.extend().catch(() => undefined);
    // One more in rhythm begins before the one by hand is refused; then both would be asked once more after the join.
    while (node.asked('extend').length < 2) await cluster.advance(1);
    expect(node.asked('join')).toHaveLength(1);
    while (node.asked('join').length < 2) await cluster.advance(1);
    await cluster.settle(end === 'drain' ? redlock.drain(0) : lock.release());
    await cluster.settle(extension);
    await cluster.advance(100);
    expect([cluster.holders('a'), node.asked('extend').length]).toEqual([0, 2]);
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

  it('keeps others of this process out, too, who are granted it with one try', async () => {
    const { cluster, redlock, node } = await newProcess({ minHold: '2s', wait: '1m' });
    const startedAtMs = cluster.nowMs;
    await cluster.settle(redlock.withLock('a', () => 'quick'));
    // The lease on the nodes runs longer, but ends then.
    const busy = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect((busy as { holderRemainingMs: number }).holderRemainingMs).toBeLessThanOrEqual(2_000);
    await cluster.settle(redlock.acquire('a'));
    expect(cluster.nowMs - startedAtMs).toBeGreaterThanOrEqual(2_000);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(2_100);
    expect(node.asked('acquire')).toHaveLength(2);
  });

  it('delays nothing when the work took longer', async () => {
    const { cluster, redlock } = await newProcess({ minHold: '1s' });
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(1_500);
    await cluster.settle(lock.release());
    expect(cluster.holders('a')).toBe(0);
  });

  it('leaves the former holder nothing that it could hold, lose or extend', async () => {
    const { cluster, redlock, node, events } = await newProcess({ minHold: 2_900, latencyMs: 20 });
    const lock = await cluster.settle(redlock.acquire('a'));
    while (node.asked('extend').length === 0) await cluster.advance(1);
    await cluster.settle(lock.release());
    expect([lock.isHeld, lock.remainingMs]).toEqual([false, 0]);
    await cluster.advance(10_000);
    expect([node.asked('extend').length, cluster.holders('a')]).toEqual([1, 0]);
    expect([events.at(-1)?.type, lock.signal.aborted]).toEqual(['released', false]);
  });

  it('ends with the validity when the extensions failed before the release', async () => {
    const { cluster, redlock, events } = await newProcess({ minHold: 3_000, wait: '1m' });
    const lock = await cluster.settle(redlock.acquire('a'));
    for (const server of cluster.servers) server.freeze();
    await cluster.advance(1_500);
    await cluster.settle(lock.release());
    const next = redlock.acquire('a');
    await cluster.advance(1_460);
    for (const server of cluster.servers) server.resume();
    await cluster.settle(next);
    expect(events.filter(({ type }) => type === 'lost')).toEqual([]);
  });
});
