import { describe, expect, it } from '@jest/globals';
import type { LockBusyError, QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import { processFactory } from '../support/cluster.ts';
import { ACCEPTED, delayTries, held, newRoom } from '../support/waiting-room.ts';

const newProcess = processFactory();
type State = 'free' | 'held' | 'dead';

/** All of them, in order, for few nodes; for many, one for each number of each state is enough. */
function combinations(size: number): State[][] {
  if (size === 0) return [[]];
  const states: readonly State[] = ['free', 'held', 'dead'];
  return combinations(size - 1)
    .flatMap((rest) => states.map((state) => [...rest, state]))
    .filter((all) => size < 5 || all.join() === [...all].sort().join());
}

describe('a try', () => {
  it('is granted, busy or unavailable by what the nodes could do, in every combination', async () => {
    for (const states of [1, 2, 3, 4, 5].flatMap(combinations)) {
      const { cluster, redlock } = await newProcess({}, states.length);
      for (const [index, state] of states.entries()) {
        if (state === 'held') cluster.occupy('a', [index], 60_000);
        if (state === 'dead') cluster.servers[index]?.kill();
      }
      await cluster.advance(5);
      const count = (wanted: State) => states.filter((state) => state === wanted).length;
      const quorum = Math.floor(states.length / 2) + 1;
      let expected = 'QUORUM_UNAVAILABLE';
      if (count('free') + count('held') >= quorum) expected = 'LOCK_BUSY';
      if (count('free') >= quorum) expected = 'granted';
      const outcome = await cluster.settle(
        redlock.acquire('a', { wait: 0 }).then(
          () => 'granted',
          ({ code }) => code,
        ),
      );
      expect([states, outcome]).toEqual([states, expected]);
    }
  });

  it('says what each node did', async () => {
    const { cluster, redlock, nodes } = await newProcess({ restartGuard: true }, 5);
    await cluster.advance(3_000);
    nodes[0]!.latencyMs = 10;
    cluster.servers[1]?.kill();
    cluster.servers[2]?.freeze();
    cluster.servers[3]?.restart({ keepData: true });
    cluster.servers[4]?.kill();
    // So that the frozen one is known to be silent, and nobody waits for it.
    await cluster.failure(redlock.acquire('b', { wait: 0 }));
    await cluster.advance(400);
    const error = await cluster.failure(redlock.acquire('a', { wait: 500 }));
    const { causes, message } = error as QuorumUnavailableError;
    const addresses = [0, 1, 2, 3, 4].map((index) => `node${index}:6379`);
    expect(causes.map(({ address }) => address)).toEqual(addresses);
    const reasons = causes.slice(1).map(({ reason }) => reason);
    expect(reasons).toEqual(['unreachable', 'timeout', 'quarantined', 'unreachable']);
    for (const part of ['the server died', 'no answer in time', 'restart guard'])
      expect(message).toContain(part);
  });
});

describe('busy', () => {
  it("says how long the holder's lease still runs on a quorum, here or elsewhere", async () => {
    const { cluster, redlock } = await newProcess();
    for (const [index, ttlMs] of [9_000, 5_000, 7_000].entries())
      cluster.occupy('a', [index], ttlMs);
    const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    // Two nodes are known when it is decided; a quorum is free when the first of them is, with the third.
    expect((error as LockBusyError).holderRemainingMs).toBeGreaterThan(4_900);
    expect((error as LockBusyError).holderRemainingMs).toBeLessThanOrEqual(9_000);
    expect(error).toMatchObject({ isHeldHere: false });
    const { remainingMs } = await cluster.settle(redlock.acquire('b', { extend: false }));
    const own = await cluster.failure(redlock.acquire(['b', 'c'], { wait: 0 }));
    expect(own).toMatchObject({ code: 'LOCK_BUSY', waitedMs: 0, causes: [], isHeldHere: true });
    expect((own as LockBusyError).holderRemainingMs).toBeCloseTo(remainingMs);
  });

  it('is an event, not an error, and null of tryAcquire, with a wait or without one', async () => {
    const { cluster, redlock, received } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    for (const [wait, leastMs] of [[undefined, 0] as const, [500, 498] as const]) {
      const startedAtMs = cluster.nowMs;
      expect(await cluster.settle(redlock.tryAcquire('a', { wait }))).toBeNull();
      const tookMs = cluster.nowMs - startedAtMs;
      expect([tookMs >= leastMs, tookMs < leastMs + 10]).toEqual([true, true]);
    }
    expect(received('busy')).toMatchObject([{ keys: ['a'] }, { keys: ['a'] }]);
    expect(received('unavailable')).toEqual([]);
  });
});

describe('an outage', () => {
  it('is an error of tryAcquire, and an event with the causes, and ends when enough nodes are back', async () => {
    const { cluster, redlock, received } = await newProcess({ wait: '1m' });
    for (const server of cluster.servers) server.kill();
    await cluster.advance(5);
    const error = await cluster.failure(redlock.tryAcquire('a'));
    expect(error).toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    expect(received('unavailable')).toMatchObject([{ keys: ['a'], causes: [{}, {}, {}] }]);
    const acquired = redlock.acquire('a');
    await cluster.advance(10_000);
    const backAtMs = cluster.nowMs;
    for (const server of cluster.servers.slice(0, 2)) server.restart({ keepData: false });
    await cluster.settle(acquired);
    expect(cluster.nowMs - backAtMs).toBeLessThan(200);
  });

  it.each([
    ['is none', held(), 'LOCK_BUSY'],
    ['is not excluded', ACCEPTED, 'QUORUM_UNAVAILABLE'],
  ])(
    '%s where the try ahead, which is still under way at the end, has this answer: %j',
    async (_, answer, code) => {
      const room = newRoom();
      room.call('a', { wait: 60_000 });
      // Its node timeout is 60 ms, that of the try ahead 500.
      const { outcome } = room.call('a', { wait: 0, ttl: 600 });
      await room.flush();
      room.nodes[1]!.answer('acquire', answer);
      await room.advance(60);
      expect((await outcome).code).toBe(code);
    },
  );

  it('is none where a quorum has asked the try ahead for a higher ballot since it came', async () => {
    const room = newRoom();
    room.call('a', { wait: 60_000 });
    const { outcome } = room.call('a', { wait: 0, ttl: 600 });
    await room.advance(10);
    await room.answer({ kind: 'stale', floor: 2e15, nowMicros: 2e15, byClock: true });
    const later = room.call('a', { wait: 0, ttl: 600 });
    await room.advance(60);
    expect((await outcome).code).toBe('LOCK_BUSY');
    expect((await later.outcome).code).toBe('QUORUM_UNAVAILABLE');
  });

  it('is none for a set of keys while nodes tell places in line of leases, although no try was made since it came', async () => {
    const room = newRoom();
    const lock = await room.hold('a');
    room.call('a', { wait: 60_000 });
    room.call('b', { wait: 60_000 });
    await room.answer({ ...held(), remainingMs: 400 });
    // Other processes have stood in line for the first key, and its turn has passed to them.
    room.record('a').othersWait = true;
    room.setLease(60_000);
    await room.advance(100);
    await room.release(lock);
    const set = room.call('ab', { wait: 500 });
    await room.advance(500);
    expect([(await set.outcome).code, set.tries]).toEqual(['LOCK_BUSY', 0]);
  });

  it('is the answer after the lease of the holder that was named last, when nodes are silent since', async () => {
    const room = newRoom();
    room.call('a', { wait: 60_000 });
    await room.answer({ ...held(), remainingMs: 10 });
    await room.advance(30);
    const { outcome } = room.call('a', { wait: 0, ttl: 600 });
    await room.advance(60);
    expect((await outcome).code).toBe('QUORUM_UNAVAILABLE');
  });

  it.each([
    ['has no ttl', [-1, -1, -1]],
    ['has a longer lease on another node', [10, 60_000, 10]],
  ])('is none after a holder was named that %s', async (_, leasesMs) => {
    const room = newRoom();
    room.call('a', { wait: 60_000 });
    await room.answer(...leasesMs.map((remainingMs) => ({ ...held(), remainingMs })));
    await room.advance(30);
    const { outcome } = room.call('a', { wait: 0, ttl: 600 });
    await room.advance(60);
    expect((await outcome).code).toBe('LOCK_BUSY');
  });

  it('is the answer some time after a single node named a holder, when nodes are silent since', async () => {
    const room = newRoom();
    room.record('a');
    room.call('a', { wait: 0, ttl: 600 });
    await room.flush();
    room.nodes[1]!.answer('acquire', held());
    await room.advance(200);
    delayTries(room);
    const { outcome } = room.call('a', { wait: 0, ttl: 600 });
    await room.advance(60);
    expect((await outcome).code).toBe('QUORUM_UNAVAILABLE');
  });

  it('is not excluded where a try ahead took most of its time, though a quorum answered another one', async () => {
    const room = newRoom();
    const ahead = room.call('a', { wait: 60_000 });
    await room.advance(1);
    const { outcome } = room.call('a', { wait: 0 });
    await room.advance(200);
    ahead.cancel(new Error('gone'));
    await room.advance(10);
    room.set.lastQuorumAtMs = room.set.nowMs;
    await room.advance(300);
    expect((await outcome).code).toBe('QUORUM_UNAVAILABLE');
  });

  it('names the nodes that were asked, also when that was too late for an answer', async () => {
    const room = newRoom();
    delayTries(room);
    const { outcome } = room.call('a', { wait: 0, ttl: 600 });
    await room.advance(60);
    const causes = Array.from({ length: 3 }, () => ({ reason: 'timeout' }));
    expect(await outcome).toMatchObject({ code: 'QUORUM_UNAVAILABLE', causes });
  });

  it('names the nodes that left the try ahead without an answer, for all the time that a caller waited', async () => {
    const room = newRoom();
    room.call('a', { wait: 60_000 });
    await room.flush();
    const { outcome } = room.call('a', { wait: 20, ttl: 600 });
    await room.advance(60);
    const causes = room.nodes.map(({ address }) => ({ address, reason: 'timeout' }));
    expect(await outcome).toMatchObject({ code: 'QUORUM_UNAVAILABLE', causes });
  });

  it('is none where a node named a holder in a try that was cut short, and all voted before', async () => {
    const room = newRoom();
    delayTries(room);
    const { outcome } = room.call('a', { wait: 0, ttl: 600 });
    await room.advance(1);
    room.call('b', { wait: 0 });
    await room.answer(ACCEPTED);
    await room.advance(58);
    room.nodes[1]!.answer('acquire', held());
    await room.advance(1);
    const causes = [{ reason: 'timeout' }, { reason: 'held' }, { reason: 'timeout' }];
    expect(await outcome).toMatchObject({ code: 'LOCK_BUSY', causes });
  });

  it('is the answer where a node named a holder in a try that was cut short, and none voted before', async () => {
    const room = newRoom();
    delayTries(room);
    const { outcome } = room.call('a', { wait: 0, ttl: 600 });
    await room.advance(59);
    room.nodes[1]!.answer('acquire', held());
    await room.advance(1);
    expect((await outcome).code).toBe('QUORUM_UNAVAILABLE');
  });

  it.each([
    ['is days ahead of theirs', { kind: 'ahead', nowMicros: 7, floor: 0 }, 'QUORUM_UNAVAILABLE'],
    [
      'is behind theirs',
      { kind: 'stale', nowMicros: 7, floor: 0, byClock: true },
      'QUORUM_UNAVAILABLE',
    ],
    [
      'is fine, but others were faster',
      { kind: 'stale', nowMicros: 7, floor: 7, byClock: false },
      'LOCK_BUSY',
    ],
  ])(
    'is the answer where no number was right in time, and the clock of this process %s',
    async (_, refusal, code) => {
      const room = newRoom();
      const { outcome } = room.call('a', { wait: 0, ttl: 600 });
      for (let ballots = 0; ballots < 3; ballots += 1) await room.answer(refusal);
      await room.advance(60);
      expect((await outcome).code).toBe(code);
    },
  );

  it('that a caller found is its answer, also when it has ended since', async () => {
    const room = newRoom();
    const { outcome } = room.call('a', { wait: 2_000 });
    // The second time when half of its time is over.
    for (const [key, remainingMs] of Object.entries({ y: 3_000, z: 2_000 })) {
      await room.answer({ kind: 'quarantined', remainingMs });
      await room.advance(500);
      await room.hold(key);
      await room.advance(500);
    }
    const causes = [{ reason: 'quarantined' }, { reason: 'quarantined' }, {}];
    expect(await outcome).toMatchObject({ code: 'QUORUM_UNAVAILABLE', causes });
  });
});
