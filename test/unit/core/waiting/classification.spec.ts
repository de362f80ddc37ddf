import { describe, expect, it } from '@jest/globals';
import type { LockBusyError, QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import { processFactory, rejection } from '../support/cluster.ts';

const newProcess = processFactory();
type State = 'free' | 'held' | 'dead';

/** Combinations of states, all in order, for few nodes; for many, one for each number of each state is enough. */
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
    // A call before makes the frozen one known to be silent, so that nobody waits for it.
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
  it('is one behind a try that a quorum asked for a higher ballot since it came, though no node answers now', async () => {
    const { cluster, redlock } = await newProcess();
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    await cluster.settle(ahead.redlock.acquire('a').then((lock) => lock.release()));
    const first = redlock.acquire('a').catch(() => undefined);
    const behind = redlock.acquire('a', { wait: 0 });
    await cluster.advance(2.5);
    for (const server of cluster.servers) server.freeze();
    expect(await cluster.failure(behind)).toMatchObject({ code: 'LOCK_BUSY' });
    await cluster.settle(first);
  });

  it('is a set that stood in line for one key, and could not try before another call gave up its try for another key', async () => {
    const { cluster, redlock, nodes } = await newProcess({ ttl: 10_000 });
    cluster.occupy('b', [0, 1, 2], 1_000);
    void redlock.acquire('b', { wait: '1m' }).catch(() => undefined);
    await cluster.advance(100);
    // The lease is renewed: what is known of it is no answer for who comes later.
    cluster.occupy('b', [0, 1, 2], 60_000);
    await cluster.advance(2_000);
    const set = rejection(redlock.acquire(['a', 'b'], { wait: 0 }));
    const controller = new AbortController();
    for (const node of nodes) node.freeze();
    void redlock.acquire('a', { signal: controller.signal }).catch(() => undefined);
    await cluster.advance(300);
    controller.abort();
    for (const node of nodes) node.resume();
    expect(await cluster.settle(set)).toMatchObject({ code: 'LOCK_BUSY' });
  });

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
});
