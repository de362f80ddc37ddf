import { describe, expect, it } from '@jest/globals';
import { clusterFactory, processFactory } from '../support/cluster.ts';
import type { LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();
const DAY_MS = 86_400_000;

/** Ballots that a process sent to its first node. */
const ballots = ({ nodes }: LockProcess) =>
  nodes[0]!.asked('acquire').map(({ request }) => request.ballot);

describe('a ballot that is too low', () => {
  it('because an earlier holder had a clock that is ahead: one more round, same holder, larger token', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    const behind = await cluster.process();
    const first = await cluster.settle(ahead.redlock.acquire('a'));
    await cluster.settle(first.release());
    const second = await cluster.settle(behind.redlock.acquire('a', { wait: 0 }));
    expect(second.token.value).toBeGreaterThan(first.token.value);
    const asked = behind.nodes[0]!.asked('acquire').map(({ request }) => request);
    expect(asked).toHaveLength(2);
    expect(asked[0]?.holder).toBe(asked[1]?.holder);
    await cluster.settle(second.release());
    // It has heard of the fence, so the next one needs one round again.
    const third = await cluster.settle(behind.redlock.acquire('a', { wait: 0 }));
    expect(third.token.value).toBeGreaterThan(second.token.value);
    expect(ballots(behind)).toHaveLength(3);
  });

  it('because our clock is far behind that of the nodes', async () => {
    const cluster = await newCluster(3);
    const late = await cluster.process({ wallErrorMs: -3_600_000 });
    const lock = await cluster.settle(late.redlock.acquire('a', { wait: 0 }));
    expect(ballots(late)).toHaveLength(2);
    expect(lock.token.value).toBeGreaterThanOrEqual(
      cluster.environment.clock.wallMicros() - 10_000,
    );
  });

  it('on some nodes only, which alone decide: the other answers are not given away', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    for (const index of [1, 2]) cluster.servers[index]?.kill();
    await cluster.advance(5);
    // A try on one node only leaves nothing: an abandoned ballot is forgotten.
    await cluster.failure(ahead.redlock.acquire('a', { wait: 0 }));
    for (const index of [1, 2]) cluster.servers[index]?.restart({ keepData: true });
    await cluster.advance(50);
    const other = await cluster.process();
    await cluster.settle(other.redlock.acquire('a', { wait: 0 }));
    expect(ballots(other)).toHaveLength(1);
  });
});

describe('a ballot that is more than a day ahead', () => {
  it('comes down to the clocks of the nodes', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 3 * DAY_MS });
    const lock = await cluster.settle(ahead.redlock.acquire('a', { wait: 0 }));
    const [first, second] = ballots(ahead);
    expect(second).toBeLessThan(first!);
    expect(lock.token.value).toBe(second);
    expect(Math.abs(lock.token.value - cluster.environment.clock.wallMicros())).toBeLessThan(
      1_000_000,
    );
  });

  it('never lowers the token of a key below what was granted before', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 0.9 * DAY_MS });
    const furtherAhead = await cluster.process({ wallErrorMs: 3 * DAY_MS });
    const first = await cluster.settle(ahead.redlock.acquire('a'));
    await cluster.settle(first.release());
    const second = await cluster.settle(furtherAhead.redlock.acquire('a', { wait: 0 }));
    expect(second.token.value).toBeGreaterThan(first.token.value);
  });
});

describe('a ballot below one that was sent', () => {
  it('has another holder: a late copy of the higher one can never pass for the lock that was granted', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 3 * DAY_MS });
    const lock = await cluster.settle(ahead.redlock.acquire('a', { wait: 0 }));
    const [first, second] = ahead.nodes[0]!.asked('acquire').map(({ request }) => request);
    expect(second!.ballot).toBeLessThan(first!.ballot);
    expect(second!.ballot).toBe(lock.token.value);
    expect(second!.holder).not.toBe(first!.holder);
    expect(lock.token.holder).toBe(second!.holder);
    await cluster.settle(lock.release());
    expect(ahead.nodes[0]!.asked('release').map(({ request }) => request.holder)).toEqual([
      second!.holder,
    ]);
  });
});

describe('answers to an older ballot', () => {
  it('never count once a newer one was sent', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    const first = await cluster.settle(ahead.redlock.acquire('a'));
    await cluster.settle(first.release());
    // Node 2 has forgotten the fence and accepts the low ballot; its answer is slower than the second round of the others.
    cluster.servers[2]?.state.floors.delete('lock:#floor:a');
    const { redlock, nodes } = await cluster.process({ quorum: 3 });
    nodes[2]!.latencyMs = 50;
    const lock = await cluster.settle(redlock.acquire('a', { wait: 0 }));
    const granted = nodes.map(
      (node) =>
        node.asked('acquire').filter(({ request }) => request.ballot === lock.token.value).length,
    );
    // Every node, also the slow one, was asked for and has accepted the ballot that became the token.
    expect(granted).toEqual([1, 1, 1]);
    expect(
      cluster.servers.map((server) => server.state.floors.get('lock:#floor:a')?.floor),
    ).toEqual([lock.token.value, lock.token.value, lock.token.value]);
  });

  it('are not mixed with those to the new one: a quorum is of one number', async () => {
    const cluster = await newCluster(5);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    const first = await cluster.settle(ahead.redlock.acquire('a'));
    await cluster.settle(first.release());
    // Two nodes forgot: they accept the first ballot at once. Of the three others only one answers the second.
    for (const index of [0, 1]) cluster.servers[index]?.state.floors.delete('lock:#floor:a');
    const { redlock, nodes } = await cluster.process({ nodeTimeout: 300 });
    const outcome = redlock.acquire('a', { wait: 0 }).catch((error: unknown) => error);
    await cluster.advance(1.5);
    for (const index of [0, 1, 3]) cluster.servers[index]?.freeze();
    const error = await cluster.settle(outcome);
    expect(nodes[0]?.asked('acquire').length).toBeGreaterThan(0);
    expect(error).toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    for (const server of cluster.servers) server.resume();
    await cluster.advance(20);
    expect(cluster.holders('a')).toBe(0);
  });

  it('three ballots are the most of one try', async () => {
    const cluster = await newCluster(1);
    const process = await cluster.process();
    const [server] = cluster.servers;
    const acquire = server!.acquire.bind(server);
    // Somebody else's fence is always a little higher.
    server!.acquire = (request) => {
      const fence = request.ballot + 1_000;
      server!.state.floors.set('lock:#floor:a', { floor: fence, previous: 0 }, 60_000);
      return acquire(request);
    };
    await cluster.failure(process.redlock.acquire('a', { wait: 0 }));
    expect(ballots(process)).toHaveLength(3);
  });
});

describe('tokens', () => {
  it('grow with every grant, whatever the clocks of the processes', async () => {
    const cluster = await newCluster(5);
    const processes = [];
    for (const wallErrorMs of [0, -3_600_000, 40_000, 2 * DAY_MS, -5])
      processes.push(await cluster.process({ wallErrorMs }));
    let last = 0;
    for (let round = 0; round < 40; round += 1) {
      const { redlock } = processes[(round * 7) % processes.length]!;
      const lock = await cluster.settle(redlock.acquire('a'));
      expect(lock.token.value).toBeGreaterThan(last);
      last = lock.token.value;
      await cluster.settle(lock.release());
    }
  });

  it('grow although the wall clock of the process goes back', async () => {
    const { cluster, redlock } = await newProcess({}, 1);
    const first = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(first.release());
    cluster.environment.shiftWallClock(-30_000);
    const second = await cluster.settle(redlock.acquire('a', { wait: 0 }));
    expect(second.token.value).toBeGreaterThan(first.token.value);
  });

  it('of a set of keys are above those of each of its keys', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    const { redlock } = await cluster.process();
    const single = await cluster.settle(ahead.redlock.acquire('b'));
    await cluster.settle(single.release());
    const set = await cluster.settle(redlock.acquire(['a', 'b', 'c'], { wait: 0 }));
    expect(set.token.value).toBeGreaterThan(single.token.value);
    await cluster.settle(set.release());
    const after = await cluster.settle(redlock.acquire('c', { wait: 0 }));
    expect(after.token.value).toBeGreaterThan(set.token.value);
  });

  it('differ between neighbours of one process', async () => {
    const { cluster, redlock } = await newProcess();
    const values = new Set<number>();
    for (let count = 0; count < 10; count += 1) {
      const lock = await cluster.settle(redlock.acquire('a'));
      values.add(lock.token.value);
      await cluster.settle(lock.release());
    }
    expect(values.size).toBe(10);
  });
});
