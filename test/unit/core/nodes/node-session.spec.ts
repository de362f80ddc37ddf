import { describe, expect, it } from '@jest/globals';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();

describe('a server that has lost its data', () => {
  it('is said to repeat that only where it gave no vote in between, also to a process that only extends', async () => {
    const { cluster, redlock, received } = await newProcess({}, 1);
    const lock = await cluster.settle(redlock.acquire('a'));
    for (const times of [1, 2, 3]) {
      await cluster.advance(10_000);
      cluster.servers[0]!.flush();
      await cluster.settle(lock.extend());
      const messages = received('node-left').map(({ message }) => message);
      expect(messages).toEqual(Array(times).fill('has to be joined again'));
    }
  });

  it('is joined again in one round trip, for which an extension waits', async () => {
    const { cluster, redlock } = await newProcess({}, 1);
    const [a, b] = await cluster.settle(Promise.all(['a', 'b'].map((key) => redlock.acquire(key))));
    cluster.servers[0]!.flush();
    const first = a!.extend();
    // The first one was answered, and the join that follows was not.
    await cluster.advance(3);
    await cluster.settle(Promise.all([first, b!.extend()]));
    expect([a!.isHeld, b!.isHeld]).toEqual([true, true]);
  });

  it('is waited for no longer than a node timeout, in which it does not answer the join', async () => {
    const { cluster, redlock, node } = await newProcess({ nodeTimeout: 100 }, 1);
    const lock = await cluster.settle(redlock.acquire('a'));
    cluster.servers[0]!.flush();
    node.failNext('lose-request', { command: 'join' });
    await cluster.failure(lock.extend());
    await cluster.advance(10);
    expect(await cluster.failure(lock.extend())).toMatchObject({ waitedMs: 0 });
  });
});

describe('a server that takes the place of another one', () => {
  it('is asked for no vote of before: its lock would count as one that the other server gave', async () => {
    const { cluster, redlock, node } = await newProcess({ wait: 1_000 }, 1);
    await cluster.advance(1_000);
    const join = node.join.bind(node);
    node.join = (request, settle) =>
      join(request, (reply) => settle(reply.kind === 'joined' ? { ...reply, upMs: 500 } : reply));
    cluster.servers[0]!.flush();
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(lock.extend());
    expect(lock.isHeld).toBe(true);
  });
});
