import { beforeEach, describe, expect, it } from '@jest/globals';
import type { KeyRecord } from '../../../../lib/core/holding/key-table.ts';
import type { AcquireOptions, RedlockOptions } from '../../../../lib/core/options/options.ts';
import type { Acquisition } from '../../../../lib/core/waiting/acquisition.ts';
import { lockOf } from '../support/callers.ts';
import { ACCEPTED, held, newRoom, OOM } from '../support/waiting-room.ts';

let room: ReturnType<typeof newRoom>;

beforeEach(() => {
  room = newRoom();
});

/** The key may be free, as the nodes said. */
const free = (key: string) => {
  const record = room.record(key);
  record.mayBeFree(room.set.nowMs, room.set.nowMs);
  room.table.drop(record);
};
const keyOf = ({ place }: Acquisition) => (place as KeyRecord | undefined)?.key;
/** A split vote: nobody is named. */
const SPLIT = [held(0, 'x'), held(0, 'y'), ACCEPTED];

describe('a caller that arrives', () => {
  it('tries at once when none of its keys is in use here, else stands in the line of the first that is', async () => {
    const first = room.call('b');
    const callers = ['b', 'abc', 'ac', 'ab'].map((keys) => room.call(keys));
    await room.flush();
    expect([first, ...callers].map(keyOf)).toEqual([undefined, 'b', 'b', undefined, 'a']);
    expect(room.tries()).toEqual(['b', 'ac']);
    await room.answer(ACCEPTED);
    const behind = room.call('b');
    await room.flush();
    expect([behind.place?.first, behind.place?.last]).toEqual([callers[0], behind]);
  });

  it('waits behind one that pauses, or that waits for a slot, although the key is free', async () => {
    room = newRoom({ concurrentTries: 1 });
    const pausing = room.call('a');
    await room.answer(...SPLIT);
    const other = room.call('z');
    const candidate = room.call('b');
    const callers = ['a', 'b'].map((keys) => room.call(keys));
    await room.flush();
    expect([pausing, candidate, ...callers].map(keyOf)).toEqual(['a', 'b', 'a', 'b']);
    expect(room.tries()).toEqual(['z']);
    other.cancel(new Error('left'));
    await room.flush();
    expect(candidate.tries).toBe(1);
  });

  it('always makes its first try, but no further one with less than a round trip left', async () => {
    const lock = await room.hold('a');
    room.set.roundTripMs = 2;
    const first = room.call('a', { wait: 600 });
    await room.advance(599);
    await room.release(lock);
    expect(room.tries()).toEqual(['a']);
    // Without an answer it knows that the key was held since it came.
    expect((await (await room.advance(1), first.outcome)).code).toBe('LOCK_BUSY');
    const second = room.call('b', { wait: 1_000 });
    for (const _ of ['a', 'b']) await room.answer(held());
    await room.advance(999);
    free('b');
    expect(await second.outcome).toMatchObject({ code: 'LOCK_BUSY' });
    expect([second.tries, second.waitedMs]).toEqual([1, 999]);
  });
});

describe('the error of a caller whose time is over', () => {
  it('is contention when its key was held while it stood in line, also when it is released just then', async () => {
    const lock = await room.hold('a');
    const [head, second] = [room.call('a', { wait: '1m' }), room.call('a', { wait: 600 })];
    await room.advance(599);
    await room.release(lock);
    await room.advance(1);
    expect([head.tries, (await second.outcome).code]).toEqual([1, 'LOCK_BUSY']);
  });

  it('is contention when a holder was named while it stood in line, also when that has released since', async () => {
    const [head, second] = [room.call('a', { wait: '1m' }), room.call('a', { wait: 600 })];
    await room.advance(1);
    await room.answer(held());
    room.chance(0);
    await room.advance(598);
    free('a');
    await room.advance(1);
    expect([head.tries, (await second.outcome).code]).toEqual([2, 'LOCK_BUSY']);
  });

  it('is an overload when it got no slot in the end, whatever it waited for before', async () => {
    room = newRoom({ concurrentTries: 1 });
    const lock = await room.hold('a');
    const { outcome } = room.call('a', { wait: 550 });
    await room.advance(100);
    room.call('z');
    await room.release(lock);
    await room.advance(500);
    const causes = [{ address: 'this process', reason: 'overloaded' }];
    expect(await outcome).toMatchObject({ code: 'QUORUM_UNAVAILABLE', causes });
  });

  it('is an outage when a majority refused it, however little time its try had', async () => {
    const ahead = room.call('a');
    await room.flush();
    const { outcome } = room.call('a', { wait: 0 });
    await room.advance(400);
    ahead.cancel(new Error('left'));
    for (const _ of [ahead, outcome]) await room.answer(OOM);
    expect(await outcome).toMatchObject({ causes: [{ reason: 'error' }, { reason: 'error' }, {}] });
  });

  it('is an outage when it found one, however long ago, and nothing else since', async () => {
    const { outcome } = room.call('a', { wait: 2_000 });
    // The second time when half of its time is over.
    for (const remainingMs of [3_000, 2_000]) {
      await room.answer({ kind: 'quarantined', remainingMs });
      await room.advance(1_000);
    }
    const causes = [{ reason: 'quarantined' }, { reason: 'quarantined' }, {}];
    expect(await outcome).toMatchObject({ code: 'QUORUM_UNAVAILABLE', causes });
  });
});

describe('a set that waits', () => {
  it('moves when it is blocked elsewhere, in the order of arrival, and its wake-up goes on', async () => {
    const [a, b] = [await room.hold('a'), await room.hold('b')];
    const set = room.call('ab');
    const [nextA, nextB] = ['a', 'b'].map((keys) => room.call(keys));
    await room.flush();
    expect([set, nextA!, nextB!].map(keyOf)).toEqual(['a', 'a', 'b']);
    await room.release(a);
    expect([keyOf(set), set.place?.first, room.tries()]).toEqual(['b', set, []]);
    await room.advance(40);
    expect(room.tries()).toEqual(['a']);
    await room.answer(ACCEPTED);
    await room.release(b);
    // Its first key is held again: the wake-up goes on.
    expect([keyOf(set), keyOf(nextB!), room.tries()]).toEqual(['a', 'b', []]);
    await room.advance(40);
    expect([keyOf(nextB!), room.tries()]).toEqual([undefined, ['b']]);
  });

  it('refuses no free key to others', async () => {
    const set = room.call('ef');
    const e = room.call('e');
    await room.flush();
    await room.answer(held(1));
    expect([keyOf(set), room.tries()]).toEqual(['f', ['e']]);
    await room.answer(ACCEPTED);
    expect((await e.outcome).code).toBe('granted');
    await room.release((await e.outcome).lock!);
    free('f');
    await room.advance(40);
    await room.answer(OOM);
    expect(keyOf(set)).toBe('e');
  });

  it('stands in the line of the key that single nodes named', async () => {
    const set = room.call('ef');
    await room.answer(held(1), OOM, ACCEPTED);
    room.call('e');
    await room.flush();
    expect([keyOf(set), room.tries()]).toEqual(['f', ['e']]);
  });

  it('asks no more often because others take its free keys', async () => {
    const set = room.call('ef');
    let next = room.call('e');
    await room.flush();
    await room.answer(held(1));
    for (let turn = 0; turn < 5; turn += 1) {
      await room.answer(ACCEPTED);
      const { lock } = await next.outcome;
      next = room.call('e');
      await room.release(lock!);
      if (room.tries().includes('ef')) await room.answer(held(1));
    }
    expect(set.tries).toBe(1);
  });
});

describe('a set for which one key became free while another one is in use here', () => {
  const lockA = lockOf('a');
  const lockB = lockOf('b');
  let set: Acquisition;

  const begin = async (options: RedlockOptions = {}) => {
    room = newRoom(options);
    room.table.granted(lockA, [room.record('a')]);
    room.table.granted(lockB, [room.record('b')]);
    set = room.call('ab', { wait: '1m' });
    await room.flush();
    room.table.freed(lockA, [room.record('a')]);
    await room.flush();
  };

  beforeEach(() => begin());

  it.each([
    ['later arrivals', 'a', 0],
    ['later sets', 'ac', 0],
    ['no callers of other keys', 'c', 1],
  ])('keeps the free one from %s for 40 ms', async (_, keys, tries) => {
    const caller = room.call(keys, { wait: '1m' });
    await room.advance(39);
    expect([keyOf(set), caller.tries]).toEqual(['b', tries]);
    await room.advance(2);
    expect(caller.tries).toBe(1);
  });

  it('keeps it from nobody whose time is over before', async () => {
    await begin({ nodeTimeout: 30 });
    const caller = room.call('a', { wait: 0 });
    await room.advance(29);
    expect(caller.tries).toBe(1);
  });

  it('tries before them when the other key is free by then', async () => {
    const caller = room.call('a', { wait: '1m' });
    await room.advance(30);
    room.table.freed(lockB, [room.record('b')]);
    await room.flush();
    expect([set.tries, caller.tries]).toEqual([1, 0]);
  });

  it('keeps it from nobody when it leaves', async () => {
    const caller = room.call('a', { wait: '1m' });
    set.cancel(new Error('left'));
    await room.flush();
    expect(caller.tries).toBe(1);
  });

  it('keeps nothing where it is not the next for the other key', async () => {
    set.cancel(new Error('left'));
    room.call('b', { wait: '1m' });
    const lock = lockOf('again');
    room.table.granted(lock, [room.record('a')]);
    const behind = room.call('ab', { wait: '1m' });
    await room.flush();
    room.table.freed(lock, [room.record('a')]);
    await room.flush();
    const caller = room.call('a');
    await room.flush();
    expect([keyOf(behind), caller.tries]).toEqual(['b', 1]);
  });
});

describe('a caller whose try failed', () => {
  it('comes back to its place before the next one looks', async () => {
    const [first, second] = [room.call('a'), room.call('a')];
    await room.flush();
    await room.answer(...SPLIT);
    expect([room.tries(), first.place?.first]).toEqual([[], first]);
    await room.advance(40);
    await room.answer(ACCEPTED);
    expect([(await first.outcome).code, second.tries]).toEqual(['granted', 0]);
  });

  it.each<[string, object[], RedlockOptions, number]>([
    ['two round trips, doubled, after a split vote', SPLIT, { retry: {} }, 8],
    ['twice the base delay', SPLIT, { retry: { baseDelay: 30 } }, 60],
    ['the longest delay', SPLIT, { retry: { baseDelay: 300, maxDelay: 200 } }, 200],
    ['a node timeout', SPLIT, { retry: { baseDelay: 900 } }, 500],
    [
      'two round trips behind a holder without ttl',
      [{ ...held(), remainingMs: -1 }],
      { retry: {} },
      8,
    ],
    ['a quarantine', [{ kind: 'quarantined', remainingMs: 700 }], {}, 703],
  ])('pauses for %s at most', async (_, replies, options, ms) => {
    room = newRoom({ wait: '1m', ...options });
    room.chance(1);
    const caller = room.call('a');
    await room.answer(...replies);
    await room.advance(ms - 1);
    expect(caller.tries).toBe(1);
    await room.advance(1.5);
    expect(caller.tries).toBe(2);
  });

  it.each([
    ['its key is in use meanwhile', () => room.table.granted(lockOf('b'), [room.record('a')])],
    ['it has left', (candidate: Acquisition) => candidate.cancel(new Error('left'))],
  ])('gives back its place among those that wait for a slot when %s', async (_, happen) => {
    room = newRoom({ concurrentTries: 1 });
    const [first, candidate, last] = ['z', 'a', 'y'].map((keys) => room.call(keys));
    await room.flush();
    happen(candidate!);
    candidate!.wake();
    await room.flush();
    first!.cancel(new Error('left'));
    await room.flush();
    expect([candidate!.tries, last!.tries]).toEqual([0, 1]);
  });
});

describe('the outcome of the try ahead, for one who waits for no more than one answer,', () => {
  /** The try for `keys` ends with these replies, without any, or cancelled; behind it wait a patient caller of `a`, and this one. */
  async function behindTry(keys: string, options: AcquireOptions, replies?: readonly object[]) {
    const ahead = room.call(keys, options);
    await room.advance(20);
    room.call('a', { wait: 60_000 });
    const caller = room.call('a', { wait: 0 });
    await room.advance(1);
    expect(room.tries()).toEqual([keys]);
    if (replies === undefined) ahead.cancel(new Error('left'));
    else if (replies.length > 0) await room.answer(...replies);
    else await room.advance(options.ttl === undefined ? 479 : 60);
    await room.flush();
    return { caller };
  }

  it.each([
    ['is contention when it was granted', [ACCEPTED], 'LOCK_BUSY'],
    ['is contention when it named a holder of the key', [held()], 'LOCK_BUSY'],
    ['is an outage when it had no answer for a whole node timeout', [], 'QUORUM_UNAVAILABLE'],
    ['is an outage when a majority refused', [OOM], 'QUORUM_UNAVAILABLE'],
  ])('%s', async (_, replies, code) => {
    const { caller } = await behindTry('a', {}, replies);
    const { nowMs } = room.set;
    expect([(await caller.outcome).code, caller.tries]).toEqual([code, 0]);
    expect(room.set.nowMs).toBe(nowMs);
  });

  it.each<[string, string, AcquireOptions, object[] | undefined]>([
    ['its node timeout was shorter', 'a', { ttl: 600 }, []],
    ['it was for a set, and named another key', 'ab', {}, [held(1)]],
    ['no majority named one holder', 'a', {}, SPLIT],
    ['it was cancelled', 'a', {}, undefined],
  ])('says nothing when %s', async (_, keys, options, replies) => {
    const { caller } = await behindTry(keys, options, replies);
    expect([caller.tries, keyOf(caller)]).toEqual([0, 'a']);
  });
});

describe('an outage that a try found', () => {
  it.each<[string, number, boolean]>([
    ['is reported to those who come soon after it', 50, false],
    ['says nothing after two node timeouts of the one who comes', 130, false],
    ['says nothing after a later try, on any key, that had a quorum of answers', 100, true],
  ])('%s', async (rule, afterMs, hasQuorumLater) => {
    const ahead = room.call('a');
    await room.answer(OOM);
    await room.advance(afterMs);
    expect([ahead.tries, room.tries()]).toEqual([2, ['a']]);
    if (hasQuorumLater) {
      room.call('z');
      for (const node of room.nodes) node.waiting.reverse();
      await room.answer(held());
    }
    // Its node timeout is 60 ms.
    const caller = room.call('a', { wait: 0, ttl: 600 });
    await room.flush();
    expect(caller.waitedMs).toBe(0);
    await room.advance(60);
    const { code, causes } = await caller.outcome;
    // The try ahead had no answer all the time.
    const reason = rule.startsWith('is') ? 'error' : 'timeout';
    expect([code, causes[0]]).toMatchObject(['QUORUM_UNAVAILABLE', { reason }]);
  });
});
