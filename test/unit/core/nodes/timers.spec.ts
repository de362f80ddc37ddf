import { describe, expect, it } from '@jest/globals';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();

describe('the timers of a process', () => {
  it('are gone soon after its last lock, because what has ended waits for nothing', async () => {
    const process = await newProcess();
    const { cluster, redlock } = process;
    // That of the start is over.
    await cluster.advance(500);
    for (let round = 0; round < 2; round += 1) {
      const lock = await cluster.settle(redlock.acquire('a'));
      await cluster.settle(lock.release());
      await cluster.advance(200);
    }
    // After the node timeout of the first, and before that of the second: the timer of the extensions is left.
    expect(process.liveTimers).toBe(1);
    // After the first extension would have come, and before that of the second.
    await cluster.advance(650);
    expect(process.liveTimers).toBe(0);
  });

  it('are few, however many locks it holds and however long each vote took', async () => {
    const process = await newProcess();
    const { cluster, redlock, nodes } = process;
    const votes = Array.from({ length: 100 }, (_, number) => {
      for (const node of nodes) node.latencyMs = 2 + number;
      return redlock.acquire(`key${number}`);
    });
    await cluster.settle(Promise.all(votes));
    expect(process.liveTimers).toBeLessThan(30);
  });

  it('are not set for a lock that was lost', async () => {
    const process = await newProcess();
    const { cluster, redlock, received } = process;
    await cluster.settle(redlock.acquire('a'));
    cluster.occupy('a', [0, 1, 2], 60_000);
    while (received('lost').length === 0) await cluster.advance(1);
    // Of the answers, of the silence of nodes, and of the end of the validity, for which nothing waits any more.
    expect(process.liveTimers).toBe(3);
  });

  it.each([true, false])('of one held lock are set a few times (extend: %s)', async (extend) => {
    const { cluster, redlock } = await newProcess({ extend });
    const { timers } = cluster.environment;
    const set = timers.set.bind(timers);
    let count = 0;
    timers.set = (...given) => ((count += 1), set(...given));
    await cluster.settle(redlock.acquire('a'));
    await cluster.advance(20_000);
    // Per extension a round, its messages there and back, the silence of nodes, and the alarm in a few steps.
    expect(count).toBeLessThan(extend ? 250 : 20);
  });
});
