import { describe, expect, it } from '@jest/globals';
import { clusterFactory, processFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();
const DAY_MS = 86_400_000;
const FLOOR = 'lock:#floor:a';
const OOM = [{ error: 'OOM command not allowed' }, { command: 'acquire' }] as const;

/** What a process asked one of its nodes for, in order. */
const requests = ({ nodes }: LockProcess, node = 0) =>
  nodes[node]!.asked('acquire').map(({ request }) => request);
const ballots = (process: LockProcess, node = 0) =>
  requests(process, node).map(({ ballot }) => ballot);

/** On these servers an earlier holder had a clock that is so far ahead. */
function raiseFloor({ servers, environment }: Cluster, indexes: readonly number[], ms: number) {
  const floor = environment.clock.wallMicros() + ms * 1_000;
  for (const index of indexes)
    servers[index]!.state.floors.set(FLOOR, { floor, previous: 0 }, 10 * DAY_MS);
  return floor;
}

/** Acquires `a` without waiting. */
const take = ({ redlock }: LockProcess, cluster: Cluster) =>
  cluster.settle(redlock.acquire('a', { wait: 0 }));

describe('a ballot that is too low', () => {
  it('is followed by one above the floors, of the same holder; what was learnt saves that next time', async () => {
    const process = await newProcess();
    const { cluster } = process;
    const floor = raiseFloor(cluster, [0, 1, 2], 60_000);
    const lock = await take(process, cluster);
    expect(lock.token.value).toBe(floor + 1);
    const [first, second] = requests(process);
    expect([second!.holder, first!.ballot < floor]).toEqual([first!.holder, true]);
    await cluster.settle(lock.release());
    expect((await take(process, cluster)).token.value).toBe(floor + 2);
    expect(ballots(process)).toHaveLength(3);
  });

  it('is followed by one at the clock of the nodes where that set the floor', async () => {
    const late = await newProcess({ wallErrorMs: -3_600_000 });
    const { cluster } = late;
    const { token } = await take(late, cluster);
    expect([ballots(late).length, token.value]).toEqual([2, ballots(late)[1]]);
    expect(token.value).toBeGreaterThanOrEqual(cluster.environment.clock.wallMicros() - 10_000);
  });

  it.each([
    ['who has the key', [0, 1, 2], [0, 1, 2]],
    ['or are stale', [1], [0, 2]],
  ])('teaches floors of nodes that refuse for a holder %s', async (_, floors, held) => {
    const process = await newProcess();
    const { cluster, redlock, nodes } = process;
    raiseFloor(cluster, floors, 60_000);
    cluster.occupy('a', held, 60_000);
    await cluster.failure(redlock.acquire('a', { wait: 0 }));
    for (const server of cluster.servers) server.deleteLock('lock:a');
    if (floors.length === 1) nodes[0]!.failNext(...OOM);
    const { token } = await take(process, cluster);
    expect(ballots(process, 1).slice(1)).toEqual([token.value]);
  });

  it('leaves no floor behind where it was abandoned', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    for (const index of [1, 2]) cluster.servers[index]?.kill();
    await cluster.advance(5);
    await cluster.failure(ahead.redlock.acquire('a', { wait: 0 }));
    for (const index of [1, 2]) cluster.servers[index]?.restart({ keepData: true });
    await cluster.advance(50);
    const other = await cluster.process();
    await take(other, cluster);
    expect(ballots(other)).toHaveLength(1);
  });

  it('is followed by two more at most, and by none after an abort', async () => {
    const process = await newProcess({}, 1);
    const { cluster, redlock } = process;
    const [server] = cluster.servers;
    const acquire = server!.acquire.bind(server);
    // The floor of another one is always a little higher.
    server!.acquire = (request) => {
      const floor = request.ballot + 1_000;
      server!.state.floors.set(FLOOR, { floor, previous: 0 }, 60_000);
      return acquire(request);
    };
    await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect(ballots(process)).toHaveLength(3);
    const waiter = await newProcess();
    waiter.nodes[2]!.latencyMs = 80;
    raiseFloor(waiter.cluster, [1], 60_000);
    const controller = new AbortController();
    const { signal } = controller;
    const aborted = rejection(waiter.redlock.acquire('a', { signal, wait: '1m' }));
    await waiter.cluster.advance(10);
    controller.abort(new Error('cancelled'));
    await waiter.cluster.settle(aborted);
    await waiter.cluster.advance(200);
    expect([ballots(waiter).length, waiter.cluster.holders('a')]).toEqual([1, 0]);
  });
});

describe('a ballot that is more than a day ahead', () => {
  it('comes down to the clocks of the nodes, with another holder, so that no late copy passes for the lock', async () => {
    const ahead = await newProcess({ wallErrorMs: 3 * DAY_MS });
    const { cluster } = ahead;
    const lock = await take(ahead, cluster);
    const [first, second] = requests(ahead);
    expect(lock.token).toMatchObject({ value: second!.ballot, holder: second!.holder });
    expect([second!.ballot < first!.ballot, second!.holder === first!.holder]).toEqual([
      true,
      false,
    ]);
    const aheadMicros = lock.token.value - cluster.environment.clock.wallMicros();
    expect(Math.abs(aheadMicros)).toBeLessThan(1_000_000);
    await cluster.settle(lock.release());
    const released = ahead.nodes[0]!.asked('release').map(({ request }) => request.holder);
    expect(released).toEqual([second!.holder]);
  });

  it('is released where it was accepted before a lower one follows', async () => {
    const ahead = await newProcess({ wallErrorMs: 3 * DAY_MS });
    const { cluster } = ahead;
    const floor = raiseFloor(cluster, [2], 2.5 * DAY_MS);
    const { token } = await take(ahead, cluster);
    expect(ballots(ahead, 2)[0]).toBeGreaterThan(token.value);
    await cluster.advance(10);
    expect(cluster.holdersOf('a')).toEqual([token.holder, token.holder, undefined]);
    expect(cluster.servers[2]!.state.floors.get(FLOOR)?.floor).toBe(floor);
  });

  it('never lowers the token of a key below what was granted before', async () => {
    const ahead = await newProcess({ wallErrorMs: 3 * DAY_MS });
    const floor = raiseFloor(ahead.cluster, [0, 1, 2], 0.9 * DAY_MS);
    expect((await take(ahead, ahead.cluster)).token.value).toBeGreaterThan(floor);
  });
});

describe('answers to several ballots of one try', () => {
  it('are not mixed: every node of the quorum accepted the one that became the token', async () => {
    const process = await newProcess({ quorum: 3 });
    const { cluster, nodes, servers } = Object.assign(process, process.cluster);
    // Node 2 accepts the low ballot; its answer is slower than the second round of the others.
    raiseFloor(cluster, [0, 1], 60_000);
    nodes[2]!.latencyMs = 50;
    const { value } = (await take(process, cluster)).token;
    expect([0, 1, 2].map((node) => ballots(process, node).at(-1))).toEqual([value, value, value]);
    expect(servers.map(({ state }) => state.floors.get(FLOOR)?.floor)).toEqual([
      value,
      value,
      value,
    ]);
  });

  it('are no quorum together, and nothing stays behind', async () => {
    const { cluster, redlock } = await newProcess({}, 5);
    // Two nodes accept the first ballot at once. Of the three others only one answers the second.
    raiseFloor(cluster, [2, 3, 4], 60_000);
    const failed = cluster.failure(redlock.acquire('a', { wait: 0 }));
    await cluster.advance(1.5);
    for (const index of [0, 1, 3]) cluster.servers[index]?.freeze();
    expect(await failed).toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    for (const server of cluster.servers) server.resume();
    await cluster.advance(20);
    expect(cluster.holders('a')).toBe(0);
  });

  it('count for the release: a node that accepted only the first one is released, too', async () => {
    const process = await newProcess();
    const { cluster, redlock, nodes } = process;
    raiseFloor(cluster, [1, 2], 60_000);
    const acquired = redlock.acquire('a', { wait: 0 });
    // The first ballot has been executed, the second has not been sent.
    await cluster.advance(1.5);
    nodes[0]!.failNext(...OOM);
    const lock = await cluster.settle(acquired);
    expect(cluster.holders('a')).toBe(3);
    await cluster.settle(lock.release());
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });
});

describe('tokens', () => {
  it('grow with every grant, whatever the clocks of the processes', async () => {
    const cluster = await newCluster(5);
    const processes: LockProcess[] = [];
    for (const wallErrorMs of [0, -3_600_000, 40_000, 2 * DAY_MS, -5])
      processes.push(await cluster.process({ wallErrorMs }));
    let last = 0;
    for (let round = 0; round < 40; round += 1) {
      if (round === 20) cluster.environment.shiftWallClock(-30_000);
      const { redlock } = processes[(round * 7) % processes.length]!;
      const lock = await cluster.settle(redlock.acquire('a'));
      expect(lock.token.value).toBeGreaterThan(last);
      last = lock.token.value;
      await cluster.settle(lock.release());
    }
  });

  it('of a set of keys are above those of each of its keys, and the other way round', async () => {
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
});
