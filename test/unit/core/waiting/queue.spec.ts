import { describe, expect, it } from '@jest/globals';
import type { AcquireOptions } from '../../../../lib/core/options/options.ts';
import { clusterFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess, ProcessOptions } from '../support/cluster.ts';
import { newRoom } from '../support/waiting-room.ts';

const newCluster = clusterFactory();
/** Grants of a row begin within that: its time, and the round trip of the process that is six ms away. */
const LONGEST_ROW_MS = 40 + 12;
/** Pause, try and place in line of the process that is six ms away. */
const KNOWN_AFTER_MS = 6 + 12 + 6;
/** So long a key is kept for a process that is two ms away. */
const GRACE_MS = 20;
/** So long for one that waits for several keys at once. */
const GRACE_OF_SET_MS = 40;

/** The tries that a process made: one holder each. */
const tries = ({ nodes }: LockProcess) =>
  new Set(nodes.flatMap((node) => node.asked('acquire').map(({ request }) => request.holder))).size;
const queuesOf = ({ servers }: Cluster) =>
  servers.map(({ state }) => (state.queues.get('lock:a') ?? []).length);

/** The first process holds `a` for long; these others wait for it, each since 50 ms before the next, for so long. */
async function contended(waits: readonly AcquireOptions[], size = 3, options: ProcessOptions = {}) {
  const cluster = await newCluster(size);
  const holder = await cluster.process({ ttl: 60_000 });
  const lock = await cluster.settle(holder.redlock.acquire('a'));
  const waiting: { process: LockProcess; granted: Promise<number> }[] = [];
  for (const wait of waits) {
    const process = await cluster.process({ ttl: 60_000, wait: '1m', ...options });
    const granted = process.redlock.acquire('a', wait).then(() => cluster.nowMs);
    granted.catch(() => undefined);
    waiting.push({ process, granted });
    await cluster.advance(50);
  }
  let releasedAtMs = 0;
  const release = () => {
    releasedAtMs = cluster.nowMs;
    void lock.release();
  };
  /** How long after the release this process had the lock. */
  const grantedAfterMs = async (index: number) =>
    (await cluster.settle(waiting[index]!.granted)) - releasedAtMs;
  return { cluster, holder, lock, waiting, release, grantedAfterMs };
}

describe('a release in another process', () => {
  it.each([3, 5])('wakes the first in line, for one try, and no other: %i nodes', async (size) => {
    const { cluster, waiting, release, grantedAfterMs } = await contended([{}, {}, {}], size);
    await cluster.advance(5_000);
    const before = waiting.map(({ process }) => tries(process));
    release();
    // A round trip for the release, half of one for its message, one for the try.
    expect(await grantedAfterMs(0)).toBeLessThan(6);
    await cluster.advance(1_000);
    const made = waiting.map(({ process }, index) => tries(process) - before[index]!);
    expect([before, made]).toEqual([
      [1, 1, 1],
      [1, 0, 0],
    ]);
  });

  it('is not missed by one whose place in line is on its way to the nodes', async () => {
    for (const sinceMs of [0, 1, 1.5, 2, 2.5, 3, 4]) {
      const { cluster, holder, release, lock } = await contended([]);
      const { redlock } = await cluster.process({ ttl: 60_000, wait: '1m' });
      const granted = redlock.acquire('a');
      await cluster.advance(sinceMs);
      expect(lock.isHeld && holder.redlock.heldKeys).toEqual(['a']);
      release();
      const releasedAtMs = cluster.nowMs;
      await cluster.settle(granted);
      expect(cluster.nowMs - releasedAtMs).toBeLessThan(20);
    }
  });

  it.each([1, 3])('is not missed during a reconnect to %i of 3 nodes', async (lost) => {
    const { waiting, release, grantedAfterMs } = await contended([{}]);
    for (const node of waiting[0]!.process.nodes.slice(0, lost)) node.disconnect();
    release();
    expect(await grantedAfterMs(0)).toBeLessThan(100);
  });
});

describe('a process that waits', () => {
  interface Hold {
    readonly process: LockProcess;
    readonly atMs: number;
    endMs: number;
  }

  /** What happens while each of these processes has so many callers in loops. */
  async function loops(
    cluster: Cluster,
    processes: readonly LockProcess[],
    {
      callers,
      holdMs,
      forMs,
      pauseMs = 0,
    }: { callers: number; holdMs: number; forMs: number; pauseMs?: number },
    meanwhile?: () => Promise<void>,
  ) {
    const holds: Hold[] = [];
    let isOver = false;
    const sleep = (ms: number) =>
      new Promise<void>((resolve) => void cluster.environment.timers.set(resolve, ms));
    const loop = async (process: LockProcess) => {
      while (!isOver) {
        await process.redlock.withLock('a', async () => {
          const hold = { process, atMs: cluster.nowMs, endMs: 0 };
          holds.push(hold);
          await sleep(holdMs);
          hold.endMs = cluster.nowMs;
        });
        if (pauseMs > 0) await sleep(pauseMs);
      }
    };
    const all = processes.flatMap((process) =>
      Array.from({ length: callers }, () => loop(process)),
    );
    await (meanwhile?.() ?? cluster.advance(forMs));
    isOver = true;
    await cluster.settle(Promise.all(all));
    return holds;
  }

  /** How often another process began a row while one waited, which each does from the start and between its holds: the most. */
  function passes(processes: readonly LockProcess[], holds: readonly Hold[]): number {
    let most = 0;
    /** By the process that waits: how often each other one passed it since it had the key. */
    const counts = new Map<LockProcess, Map<LockProcess, number>>();
    const lastEndMs = new Map(processes.map((process) => [process, holds[0]!.atMs]));
    for (const process of processes) counts.set(process, new Map());
    let row: Hold | undefined;
    for (const hold of holds) {
      const isNewRow = row?.process !== hold.process || hold.atMs - row.atMs > LONGEST_ROW_MS;
      if (isNewRow) row = hold;
      for (const [waiting, passed] of counts) {
        // It asks at once; and the nodes know of it when it was refused, and stands in line.
        const isKnown = row!.atMs > lastEndMs.get(waiting)! + KNOWN_AFTER_MS;
        if (waiting === hold.process || !isNewRow || !isKnown) continue;
        passed.set(hold.process, (passed.get(hold.process) ?? 0) + 1);
        most = Math.max(most, passed.get(hold.process)!);
      }
      counts.set(hold.process, new Map());
      lastEndMs.set(hold.process, hold.endMs);
    }
    return most;
  }

  it.each([
    [1, 1, 0],
    [1, 4, 0],
    // In which a caller comes back after the next one has the key: nobody is in line then.
    [8, 2, 6],
    [20, 1, 0],
    [20, 4, 0],
    [250, 1, 0],
    [250, 4, 0],
  ])(
    'is not passed twice by another one before it has the key once: holds of %i ms, %i callers each, pauses of %i ms',
    async (holdMs, callers, pauseMs) => {
      const cluster = await newCluster();
      const processes: LockProcess[] = [];
      for (const latencyMs of [2, 2, 2, 3, 6])
        processes.push(await cluster.process({ wait: '1m', latencyMs }));
      const forMs = Math.max(2_000, 60 * holdMs);
      const holds = await loops(cluster, processes, { callers, holdMs, forMs, pauseMs });
      expect(new Set(holds.map(({ process }) => process)).size).toBe(5);
      expect(holds.length).toBeGreaterThan(40);
      expect(passes(processes, holds)).toBe(1);
    },
  );

  it('forty round trips away has a quarter of the grants beside two near ones at least', async () => {
    const cluster = await newCluster();
    const near = [1, 1].map(() => cluster.process({ wait: '1m', latencyMs: 0.5 }));
    const processes = await Promise.all(near);
    const far = await cluster.process({ wait: '1m', latencyMs: 20 });
    const load = { callers: 4, holdMs: 50, forMs: 20_000 };
    const holds = await loops(cluster, [...processes, far], load);
    const own = holds.filter(({ process }) => process === far).length;
    expect(own / holds.length).toBeGreaterThanOrEqual(0.25);
  });

  it('now and then, for 2 s, is never busy beside four that have two callers each in loops of 250 ms', async () => {
    const cluster = await newCluster();
    const visitor = await cluster.process();
    const others: LockProcess[] = [];
    for (let count = 0; count < 4; count += 1) others.push(await cluster.process({ wait: '1m' }));
    const outcomes: unknown[] = [];
    await loops(cluster, others, { callers: 2, holdMs: 250, forMs: 0 }, async () => {
      for (let visit = 0; visit < 20; visit += 1) {
        await cluster.advance(130 + 97 * visit);
        const visited = visitor.redlock.withLock('a', () => 'granted', { wait: '2s' });
        outcomes.push(await cluster.settle(visited.catch((error: unknown) => error)));
      }
    });
    expect(outcomes).toEqual(outcomes.map(() => 'granted'));
  });
});

describe('a place in line', () => {
  it('is never taken by a call with wait: 0, which takes no turn of another one either', async () => {
    const { cluster, waiting, release, grantedAfterMs } = await contended([{}, { wait: 0 }]);
    const [first, { process: hasty, granted }] = [waiting[0]!.process, waiting[1]!];
    expect(await cluster.failure(granted)).toMatchObject({ code: 'LOCK_BUSY' });
    expect([queuesOf(cluster), hasty.nodes[0]!.asked('wait')]).toEqual([[1, 1, 1], []]);
    for (const node of first.nodes) node.freeze();
    release();
    await cluster.advance(3);
    expect(await cluster.settle(hasty.redlock.tryAcquire('a'))).toBeNull();
    for (const node of first.nodes) node.resume();
    expect(await grantedAfterMs(0)).toBeLessThan(GRACE_MS);
  });

  it('that was kept for the next caller of the same process goes on when that one leaves', async () => {
    const cluster = await newCluster();
    const [busy, other] = [await cluster.process(), await cluster.process()];
    const lock = await cluster.settle(busy.redlock.acquire('a'));
    const granted = other.redlock.acquire('a', { wait: '1m' });
    const abort = new AbortController();
    const failed = rejection(busy.redlock.acquire('a', { wait: '1m', signal: abort.signal }));
    await cluster.advance(15);
    void lock.release();
    abort.abort(new Error('left'));
    expect(await failed).toMatchObject({ message: 'left' });
    const leftAtMs = cluster.nowMs;
    await cluster.settle(granted);
    expect(cluster.nowMs - leftAtMs).toBeLessThan(GRACE_MS / 2);
  });

  it('is no reason to ask at once again where a key is free, but the clock of this process is wrong', async () => {
    const room = newRoom();
    room.chance(0.5);
    const caller = room.call('a', { wait: 2_000 });
    for (let turn = 0; turn < 100; turn += 1) {
      for (const node of room.nodes)
        for (const { name, settle } of node.waiting.splice(0))
          settle(
            (name === 'acquire'
              ? { kind: 'stale', floor: 9e15, nowMicros: 1, byClock: true }
              : { kind: 'waiting', ticket: 1, freeInMs: 0 }) as never,
          );
      await room.advance(1);
    }
    expect(caller.tries).toBeLessThan(15);
  });

  it('of a process that does not wait any more is given to the next at once', async () => {
    const { cluster, waiting, release, grantedAfterMs } = await contended([{ wait: 500 }, {}]);
    expect(await cluster.failure(waiting[0]!.granted)).toMatchObject({ code: 'LOCK_BUSY' });
    release();
    expect(await grantedAfterMs(1)).toBeLessThan(GRACE_MS / 2);
  });

  it.each([1, 2, 2.5, 3, 3.5])(
    'of a caller that gives up %d ms after the release goes to the next before its grace is over',
    async (afterMs) => {
      const abort = new AbortController();
      const waits = [{ signal: abort.signal }, {}];
      const { cluster, waiting, release, grantedAfterMs } = await contended(waits);
      const failed = rejection(waiting[0]!.granted);
      release();
      await cluster.advance(afterMs);
      abort.abort(new Error('left'));
      expect(await failed).toMatchObject({ message: 'left' });
      expect(await grantedAfterMs(1)).toBeLessThan(GRACE_MS);
    },
  );

  it('behind several processes that stopped is free for half a second at most', async () => {
    const { cluster, waiting, release, grantedAfterMs } = await contended(Array(10).fill({}));
    for (const { process } of waiting.slice(0, 8)) for (const node of process.nodes) node.freeze();
    await cluster.advance(1_000);
    release();
    expect(await grantedAfterMs(8)).toBeLessThan(500 + 8 * GRACE_MS);
  });

  it('of a set that cannot take its turn, because another of its keys is held for long, goes to the next one', async () => {
    const cluster = await newCluster();
    const [holder, sets, stopped, single] = [
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ wait: '1m' }),
      await cluster.process({ wait: '1m' }),
      await cluster.process({ wait: '1m' }),
    ];
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    await cluster.settle(holder.redlock.acquire('b'));
    const set = sets.redlock.acquire(['a', 'b']);
    set.catch(() => undefined);
    await cluster.advance(50);
    stopped.redlock.acquire('a').catch(() => undefined);
    await cluster.advance(50);
    for (const node of stopped.nodes) node.freeze();
    const granted = single.redlock.acquire('a');
    await cluster.advance(50);
    void lock.release();
    const releasedAtMs = cluster.nowMs;
    await cluster.settle(granted);
    expect(cluster.nowMs - releasedAtMs).toBeLessThan(2 * GRACE_OF_SET_MS + 2 * GRACE_MS);
  });

  it('of a process that stopped costs its grace, and nothing where its connections are closed', async () => {
    for (const [isClosed, ms] of [[false, GRACE_MS + 10] as const, [true, 6] as const]) {
      const { cluster, waiting, release, grantedAfterMs } = await contended([{}, {}, {}]);
      const { nodes } = waiting[0]!.process;
      for (const node of nodes) if (!isClosed) node.freeze();
      if (isClosed) await Promise.all(nodes.map((node) => node.close()));
      await cluster.advance(10);
      release();
      expect(await grantedAfterMs(1)).toBeLessThan(ms);
      for (const node of nodes) node.resume();
    }
  });
});

describe('a message on the channel of a process', () => {
  it('is never evidence: forged ones cost tries, never the lock', async () => {
    const { cluster, holder, waiting, lock } = await contended([{ wait: '3s' }]);
    const { process, granted } = waiting[0]!;
    const holders = cluster.holdersOf('a');
    for (let count = 0; count < 10; count += 1) {
      await cluster.advance(100);
      for (const node of [...process.nodes, ...holder.nodes]) {
        for (const name of ['lock:a', 'lock:unknown', 'a', '']) node.forgeTurn(name);
        node.forgeTurn('lock:a', 5);
      }
    }
    expect(await cluster.failure(granted)).toMatchObject({ code: 'LOCK_BUSY' });
    expect([tries(process) > 5, lock.isHeld]).toEqual([true, true]);
    expect(cluster.holdersOf('a')).toEqual(holders);
  });

  it('that is lost is replaced by a look every 400 ms', async () => {
    const { waiting, release, grantedAfterMs } = await contended([{}]);
    for (const server of waiting[0]!.process.nodes.map((node) => node.server))
      server.state.queues.delete('lock:a');
    release();
    expect(await grantedAfterMs(0)).toBeLessThan(420);
  });
});

describe('nodes that refuse the channel', () => {
  /** One waits, for 5 s so far, which so many nodes tell nothing. */
  async function refused(refusing: number, size: number) {
    const cluster = await newCluster(size);
    const [holder, waiter] = [await cluster.process(), await cluster.process({ wait: '1m' })];
    for (const node of waiter.nodes.slice(0, refusing)) node.refusesChannels = true;
    const lock = await cluster.settle(holder.redlock.acquire('a'));
    const granted = waiter.redlock.acquire('a');
    await cluster.advance(5_000);
    /** Releases the lock, and returns how long it takes until the waiter has it. */
    const grantedAfterMs = async () => {
      const releasedAtMs = cluster.nowMs;
      void lock.release();
      await cluster.settle(granted);
      return cluster.nowMs - releasedAtMs;
    };
    return { cluster, waiter, grantedAfterMs };
  }

  it.each([
    [2, 3],
    [3, 5],
  ])('are asked again where they are %i of %i', async (refusing, size) => {
    const { grantedAfterMs } = await refused(refusing, size);
    expect(await grantedAfterMs()).toBeLessThan(1_000);
  });

  it('cost nothing where they are a minority', async () => {
    const { waiter, grantedAfterMs } = await refused(1, 3);
    expect(tries(waiter)).toBe(1);
    expect(await grantedAfterMs()).toBeLessThan(100);
  });

  it('and allow it later say whose turn it is, and no try is made before', async () => {
    const { waiter, grantedAfterMs } = await refused(3, 3);
    for (const node of waiter.nodes) node.allowChannels();
    expect(tries(waiter)).toBe(1);
    expect(await grantedAfterMs()).toBeLessThan(10);
  });
});
