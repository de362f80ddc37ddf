import { describe, expect, it } from '@jest/globals';
import { Turns } from '../../../../lib/core/holding/turns.ts';
import type { MemoryLockServer } from '../../../../lib/testing/index.ts';
import { clusterFactory, type LockProcess } from '../support/cluster.ts';
import { ACCEPTED, held, letOthersGo, newRoom } from '../support/waiting-room.ts';

const newCluster = clusterFactory();

describe('while it is the turn of other processes, a caller', () => {
  it('stands in line and listens, so that a release of theirs ends that', async () => {
    const room = newRoom();
    const turns = (room.record('a').turns = new Turns());
    // Its first look at the row, which has lasted for long since.
    turns.begins(room.set.nowMs - 1_000, 0);
    turns.grantsInARow = 4;
    room.chance(0);
    const caller = room.call('a');
    await room.advance(20);
    expect([caller.tries, caller.place?.key, room.node.watching.size]).toEqual([0, 'a', 1]);
    // The watch is active; whether somebody had the key before is not known.
    room.table.hint('lock:a', null);
    await room.advance(10);
    expect(caller.tries).toBe(0);
    room.table.hint('lock:a', 'elsewhere');
    await room.advance(1);
    expect(caller.tries).toBe(1);
  });

  it.each([
    ['half of its time for its try', 60_000, 2, 250],
    ['four round trips where they take longer than half', 60_000, 100, 100],
    ['all of its time where round trips take longer', 60_000, 150, 0],
  ])('keeps %s', async (_, turnMs, roundTripMs, triesAfterMs) => {
    const room = newRoom();
    room.set.roundTripMs = roundTripMs;
    letOthersGo(room, turnMs);
    const caller = room.call('a', { wait: 0 });
    if (triesAfterMs > 0) await room.advance(triesAfterMs - 1);
    expect(caller.tries).toBe(triesAfterMs > 0 ? 0 : 1);
    await room.advance(1);
    expect(caller.tries).toBe(1);
  });
});

describe('after the last release of a row elsewhere, a caller', () => {
  it.each([
    ['tries when a quorum of nodes is free, if its process is next', 2, ['one', 'two', 'two'], 0],
    ['waits for a round trip where fewer said so', 2, ['one', 'two'], 2],
    ['lets the next one go first', 2, ['one', 'one'], 4],
    ['tries where it does not know how many others there are', 0, ['one'], 0],
  ])('%s', async (_, rivals, holders, triesAfterMs) => {
    const room = newRoom();
    room.chance(0);
    letOthersGo(room, 60_000);
    room.record('a').turns!.rivals = rivals;
    const caller = room.call('a', { wait: '1m' });
    for (const holder of holders) room.table.hint('lock:a', holder);
    await room.flush();
    const before = caller.tries;
    await room.advance(triesAfterMs);
    expect([before, caller.tries]).toEqual([triesAfterMs > 0 ? 0 : 1, 1]);
  });
});

describe('a caller that lost to holders in other processes', () => {
  it('asks again after a split vote as soon as one that did not', async () => {
    const pausedMs = async (losses: number) => {
      const room = newRoom();
      room.chance(0.99);
      const caller = room.call('a', { wait: '1m' });
      for (let loss = 1; loss <= losses; loss += 1) {
        await room.answer(held(0, `holder-${loss}`));
        room.table.hint('lock:a', null);
        while (caller.tries === loss) await room.advance(1);
      }
      const { tries } = caller;
      await room.answer(ACCEPTED, held(0, 'one'), held(0, 'two'));
      const fromMs = room.set.nowMs;
      while (caller.tries === tries) await room.advance(1);
      return room.set.nowMs - fromMs;
    };
    expect(await pausedMs(6)).toBe(await pausedMs(0));
  });
});

/** What became of callers in a loop, for three seconds; one process for each of these round trips. */
async function contend(
  roundTripsMs: readonly number[],
  callersEach: number,
  holdMs: number,
  byHandle = false,
) {
  const cluster = await newCluster(5);
  const processes: LockProcess[] = [];
  for (const latencyMs of roundTripsMs) processes.push(await cluster.process({ latencyMs }));
  const hints = countHints(cluster.servers[0]!);
  const order: number[] = [];
  let longestMs = 0;
  const lastMs = processes.map(() => cluster.nowMs);
  const untilMs = cluster.nowMs + 3_000;
  const loop = async (index: number) => {
    const { redlock } = processes[index]!;
    const hold = () => {
      order.push(index);
      longestMs = Math.max(longestMs, cluster.nowMs - lastMs[index]!);
      lastMs[index] = cluster.nowMs;
      return new Promise<void>((resolve) => {
        cluster.environment.timers.set(resolve, holdMs);
      });
    };
    while (cluster.nowMs < untilMs)
      if (byHandle) {
        const lock = await redlock.acquire('a', { wait: '1m' });
        await hold();
        await lock.release();
      } else await redlock.withLock('a', hold, { wait: '1m' });
  };
  const loops = processes.flatMap((__, index) =>
    Array.from({ length: callersEach }, () => loop(index)),
  );
  await cluster.settle(Promise.all(loops));
  const counts = processes.map((__, index) => order.filter((each) => each === index).length);
  return {
    grants: order.length,
    fewest: Math.min(...counts),
    most: Math.max(...counts),
    rows: order.filter((index, at) => index !== order[at - 1]).length,
    votes: processes.flatMap(({ nodes }) => nodes[0]!.asked('acquire')).length,
    hints: hints(),
    /** The longest time in which a process had no grant. */
    longestMs,
  };
}

/** Messages that subscribers of this server were sent. */
function countHints(server: MemoryLockServer): () => number {
  let count = 0;
  const subscribe = server.subscribe.bind(server);
  server.subscribe = (channel, client) => {
    const published = client.published.bind(client);
    client.published = (...args) => {
      count += 1;
      published(...args);
    };
    subscribe(channel, client);
  };
  return () => count;
}

describe('callers of several processes that want one key again and again', () => {
  it('cost little more than a vote for each grant, and a hint for each row', async () => {
    const { grants, rows, votes, hints } = await contend([2, 2, 2], 20, 2);
    expect(votes).toBeLessThan(grants + 3 * rows);
    expect(hints).toBeLessThan(6 * rows);
    expect(rows).toBeGreaterThan(20);
  });

  it('get it one process after the other', async () => {
    const { grants, fewest, most, votes } = await contend(Array(8).fill(1), 1, 2);
    expect(fewest / most).toBeGreaterThan(0.5);
    expect(votes / grants).toBeLessThan(2);
    expect(grants).toBeGreaterThan(0.9 * (3_000 / 3));
  });

  it.each([1, 8])(
    'get a fair share in a process that is eight times as far away: %i in each',
    async (callers) => {
      const { grants, fewest } = await contend([1, 1, 8], callers, 2);
      expect(fewest / grants).toBeGreaterThan(0.1);
    },
  );

  it('take none of its free moments from the process that is next, where each release is published', async () => {
    const { votes, grants, longestMs } = await contend(Array(8).fill(1), 1, 4, true);
    expect(votes / grants).toBeLessThan(3);
    expect(longestMs).toBeLessThan(800);
  });

  it('all get it where there are many processes', async () => {
    const { fewest, votes, grants } = await contend(Array(24).fill(1), 1, 2);
    expect(fewest).toBeGreaterThan(4);
    expect(votes / grants).toBeLessThan(7);
  });
});

/** A process whose callers hold a key in a loop, and one that visits it now and then, for a moment: what each visit came to. */
async function visitsBeside(
  { callers, holdMs }: { readonly callers: number; readonly holdMs: number },
  pauseMs: (visit: number) => number,
  {
    servers,
    wait,
    forMs,
  }: { readonly servers: number; readonly wait: '1m' | '2s'; readonly forMs: number },
): Promise<{ readonly outcome: string; readonly waitedMs: number }[]> {
  const cluster = await newCluster(servers);
  const busy = await cluster.process({ latencyMs: 1 });
  const rare = await cluster.process({ latencyMs: 1 });
  const hold = (ms: number) => () =>
    new Promise<void>((resolve) => {
      cluster.environment.timers.set(resolve, ms);
    });
  const untilMs = cluster.nowMs + forMs;
  const loop = async () => {
    while (cluster.nowMs < untilMs) await busy.redlock.withLock('a', hold(holdMs), { wait: '1m' });
  };
  const visits: { readonly outcome: string; readonly waitedMs: number }[] = [];
  const visit = async () => {
    while (cluster.nowMs < untilMs) {
      await hold(pauseMs(visits.length))();
      const fromMs = cluster.nowMs;
      const visited = rare.redlock.withLock('a', hold(1), { wait });
      const outcome = await visited.then(() => 'granted', String);
      visits.push({ outcome, waitedMs: cluster.nowMs - fromMs });
    }
  };
  await cluster.settle(Promise.all([...Array.from({ length: callers }, loop), visit()]));
  expect(visits.length).toBeGreaterThan(15);
  return visits;
}

describe('a process that wants a key now and then, and is done at once', () => {
  it.each([
    [1, 20],
    [2, 20],
    [1, 100],
    [2, 100],
  ])(
    'waits for three rows at most beside one that has %i callers in a loop, of %i ms each',
    async (callers, holdMs) => {
      const plan = { servers: 3, wait: '1m', forMs: 15_000 } as const;
      const visits = await visitsBeside({ callers, holdMs }, () => 300, plan);
      const waitsMs = visits.map(({ waitedMs }) => waitedMs);
      const rowMs = Math.max(4 * holdMs, 80 + holdMs);
      expect(Math.max(...waitsMs)).toBeLessThan(3 * rowMs);
      expect(waitsMs.reduce((sum, ms) => sum + ms, 0) / waitsMs.length).toBeLessThan(rowMs);
    },
  );
});

describe('a process that wants a key now and then, beside one that holds it for long', () => {
  const mixes = [1, 2].flatMap((callers) =>
    [150, 250, 350, 450, 650].flatMap((holdMs) =>
      [300, 1_000].map((pauseMs) => [callers, holdMs, pauseMs] as const),
    ),
  );

  it.each(mixes)(
    'gets it within 2 s: %i callers in a loop of %i ms each, a visit every %i ms',
    async (callers, holdMs, pauseMs) => {
      const plan = { servers: 1, wait: '2s', forMs: 60_000 } as const;
      const pauseOf = (visit: number) => pauseMs + ((visit * 37) % 100);
      const visits = await visitsBeside({ callers, holdMs }, pauseOf, plan);
      expect(visits.filter(({ outcome }) => outcome !== 'granted')).toEqual([]);
    },
  );
});
