import { describe, expect, it } from '@jest/globals';
import { Attempt } from '../../../../lib/core/voting/attempt.ts';
import type { AttemptOutcome } from '../../../../lib/core/voting/attempt.ts';
import { clusterFactory } from '../support/cluster.ts';
import type { LockProcess } from '../support/cluster.ts';
import { scriptedSet } from '../support/scripted-node.ts';

describe('an attempt', () => {
  it('counts no answer to an earlier ballot, which may come after the next one was sent', async () => {
    const { set, nodes, connect, environment } = scriptedSet({ size: 3 });
    connect();
    const outcome = new Promise<AttemptOutcome>((ended) => {
      const nothing = () => undefined;
      const listener = { sawFloor: nothing, sawVotes: nothing, refused: nothing, ended };
      const call = { keys: ['a'], settings: set.options.acquire };
      new Attempt(set, listener, call, set.clock.nowMs + 300).run(set.clock.nowMs, 100);
    });
    const stale = { kind: 'stale', floor: 300, nowMicros: 0, byClock: false };
    for (const node of nodes.slice(0, 2)) node.answer('acquire', stale);
    // Node 2 accepts the first one; that and one accept of the second are no quorum.
    for (const index of [0, 2]) nodes[index]!.answer('acquire', { kind: 'accepted' });
    await environment.advance(300);
    expect(await outcome).toMatchObject({ kind: 'failed' });
    const released = nodes.map(({ waiting }) => waiting.filter(({ name }) => name === 'release'));
    expect(released.map(({ length }) => length)).toEqual([1, 1, 1]);
  });
});

describe('tokens', () => {
  const newCluster = clusterFactory();
  const DAY_MS = 86_400_000;

  it('grow with every grant, whatever the clocks of the processes do', async () => {
    const cluster = await newCluster(5);
    const processes: LockProcess[] = [];
    for (const wallErrorMs of [0, -3_600_000, 40_000, 0.9 * DAY_MS, 3 * DAY_MS, -5])
      processes.push(await cluster.process({ wallErrorMs }));
    let last = 0;
    for (let round = 0; round < 60; round += 1) {
      if (round === 30) cluster.environment.shiftWallClock(-30_000);
      const { redlock } = processes[(round * 7) % processes.length]!;
      const keys = round % 5 === 0 ? ['a', 'b', 'c'] : 'b';
      const lock = await cluster.settle(redlock.acquire(keys, { wait: 0 }));
      expect(lock.token.value).toBeGreaterThan(last);
      last = lock.token.value;
      await cluster.settle(lock.release());
    }
  });

  it('need one ballot, once a process knows that the floor is ahead of its clock', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    const waiter = await cluster.process();
    const first = await cluster.settle(ahead.redlock.acquire('a'));
    await cluster.failure(waiter.redlock.acquire('a', { wait: 0 }));
    await cluster.settle(first.release());
    for (let round = 0; round < 2; round += 1)
      await cluster.settle((await cluster.settle(waiter.redlock.acquire('a'))).release());
    expect(waiter.nodes[0]!.asked('acquire')).toHaveLength(3);
  });
});
