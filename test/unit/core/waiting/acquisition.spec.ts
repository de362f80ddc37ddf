import { beforeEach, describe, expect, it } from '@jest/globals';
import { HeldLock } from '../../../../lib/core/holding/held-lock.ts';
import { KeyTable } from '../../../../lib/core/holding/key-table.ts';
import type { AcquireRequest } from '../../../../lib/core/nodes/lock-node.ts';
import type { AcquireOptions } from '../../../../lib/core/options/options.ts';
import { resolveAcquire } from '../../../../lib/core/options/resolve-options.ts';
import { Acquisition } from '../../../../lib/core/waiting/acquisition.ts';
import { Admission } from '../../../../lib/core/waiting/admission.ts';
import { seededRandom } from '../../../support/manual-environment.ts';
import { Caller } from '../support/callers.ts';
import { scriptedSet } from '../support/scripted-node.ts';

const ACCEPTED = { kind: 'accepted' };
const OOM = { kind: 'failed', nothingWritten: true, reason: 'error', message: 'OOM' };
const held = (index = 0, holder = 'elsewhere') => ({
  kind: 'held',
  index,
  holder,
  remainingMs: 60_000,
  floor: 0,
});

type CallOptions = AcquireOptions & { readonly isInSection?: boolean };

/** Three scripted nodes that vote, and callers by the names of their keys. */
function newRoom() {
  const world = scriptedSet({ size: 3, ttl: 10_000, retry: { maxDelay: 20 } });
  const { set, nodes, environment } = world;
  const table = new KeyTable(set);
  const room = { set, table, admission: new Admission(512) };
  set.open();
  for (const node of nodes) {
    node.listener.opened();
    node.answer('join', { kind: 'joined', quarantineMs: 0 });
  }
  let tickets = 0;
  const call = (keys: string, { isInSection = false, ...options }: CallOptions = {}) => {
    const settings = resolveAcquire(set.options, options);
    const ticket = (tickets += 1);
    const acquisition = new Acquisition(room, [...keys], settings, ticket, isInSection);
    const outcome = acquisition
      .run((grant, records) => {
        const all = { set, table, records, settings, grant, ticket, onEnd: () => undefined };
        return new HeldLock([...keys], all);
      })
      .then(
        (lock) => ({ code: 'granted', lock, causes: [] as object[] }),
        ({ code, causes }) => ({ code, lock: undefined, causes }),
      );
    return Object.assign(acquisition, { outcome });
  };
  /** The keys that are being asked for, one try after the other. */
  const tries = () =>
    nodes[0]!.waiting.flatMap(({ name, request }) =>
      name === 'acquire'
        ? (request as { names: { locks: string[] } }).names.locks
            .map((lock) => lock.at(-1))
            .join('')
        : [],
    );
  /** Every node answers its oldest vote, and what follows from that happens. */
  const answer = async (...replies: object[]) => {
    for (const [index, node] of nodes.entries())
      if (node.waiting.some(({ name }) => name === 'acquire'))
        node.answer('acquire', replies[index % replies.length]!);
    await environment.flush();
  };
  return { ...world, table, call, tries, answer, flush: () => environment.flush() };
}

let room: ReturnType<typeof newRoom>;

beforeEach(() => {
  room = newRoom();
});

const keyOf = ({ place }: Acquisition) => place?.key;

describe('a caller that arrives', () => {
  it('tries at once when none of its keys is in use here, else stands in the line of the first that is', async () => {
    const first = room.call('b');
    const [single, set, other] = ['b', 'abc', 'ac'].map((keys) => room.call(keys));
    await room.flush();
    expect([first, single!, set!, other!].map(keyOf)).toEqual([undefined, 'b', 'b', undefined]);
    expect(room.tries()).toEqual(['b', 'ac']);
    await room.answer(ACCEPTED);
    expect([keyOf(single!), keyOf(set!)]).toEqual(['b', 'b']);
    const behind = room.call('b');
    await room.flush();
    expect([behind.place?.first, behind.place?.last]).toEqual([single, behind]);
  });
});

describe('a set that waits', () => {
  it('moves when it is blocked elsewhere, in the order of arrival, and its wake-up goes on', async () => {
    const [a, b] = ['a', 'b'].map((keys) => room.call(keys));
    await room.answer(ACCEPTED);
    await room.answer(ACCEPTED);
    const set = room.call('ab');
    const [nextA, nextB] = ['a', 'b'].map((keys) => room.call(keys));
    await room.flush();
    expect([set, nextA!, nextB!].map(keyOf)).toEqual(['a', 'a', 'b']);
    void (await a!.outcome).lock!.release();
    await room.flush();
    expect([keyOf(set), set.place?.first, room.tries()]).toEqual(['b', set, ['a']]);
    await room.answer(ACCEPTED);
    void (await b!.outcome).lock!.release();
    await room.flush();
    // Its first key is held again: the wake-up goes on.
    expect([keyOf(set), keyOf(nextB!), room.tries()]).toEqual(['a', undefined, ['b']]);
  });

  it('refuses no free key to others, whichever holder it waits for', async () => {
    const set = room.call('ef');
    await room.answer(held(1));
    const e = room.call('e');
    await room.flush();
    expect([keyOf(set), room.tries()]).toEqual(['f', ['e']]);
    await room.answer(ACCEPTED);
    expect((await e.outcome).code).toBe('granted');
    for (const node of room.nodes) expect([...node.watching]).toEqual(['lock:e', 'lock:f']);
  });
});

describe('a claim binds', () => {
  it.each([
    ['later arrivals', 'a', {}, false],
    ['later sets', 'ac', {}, false],
    ['no later arrivals inside a section', 'a', { isInSection: true }, true],
    ['no callers of other keys', 'c', {}, true],
    ['no earlier arrivals', 'a', {}, true],
  ])('%s', async (who, keys, options, mayTry) => {
    const claimant = new Caller(who.includes('earlier') ? 99 : 0);
    const record = room.table.use('a');
    record.claims.push(claimant);
    const caller = room.call(keys, options);
    await room.flush();
    expect(room.tries()).toEqual(mayTry ? [keys] : []);
    if (mayTry) return;
    record.claims.pop();
    record.wake();
    await room.flush();
    expect([room.tries(), keyOf(caller)]).toEqual([[keys], undefined]);
  });

  it('nobody inside a section to wait for those that it binds', async () => {
    room.table.use('a').claims.push(new Caller(0));
    const [bound, nested] = [room.call('a'), room.call('a', { isInSection: true })];
    await room.flush();
    expect([room.tries(), bound.tries, nested.tries]).toEqual([['a'], 0, 1]);
  });
});

describe('a caller whose try failed', () => {
  it('comes back to its place before the next one looks', async () => {
    const [first, second] = [room.call('a'), room.call('a')];
    await room.flush();
    // A split vote: nobody is named, and it pauses.
    await room.answer(held(0, 'x'), held(0, 'y'), ACCEPTED);
    expect([room.tries(), first.place?.first]).toEqual([[], first]);
    await room.environment.advance(40);
    await room.answer(ACCEPTED);
    expect((await first.outcome).code).toBe('granted');
    expect(second.tries).toBe(0);
  });
});

describe('the outcome of the try ahead, for one who came for one answer,', () => {
  const timeout = () => room.environment.advance(500);
  const whole: AcquireOptions = { wait: 60_000 };

  it.each<[string, string, AcquireOptions, () => unknown, string]>([
    ['that was granted is contention', 'a', whole, () => room.answer(ACCEPTED), 'LOCK_BUSY'],
    [
      'that named a holder of the key is contention',
      'a',
      whole,
      () => room.answer(held()),
      'LOCK_BUSY',
    ],
    ['that had no answers is an outage', 'a', whole, timeout, 'QUORUM_UNAVAILABLE'],
    [
      'that a majority refused is an outage',
      'a',
      whole,
      () => room.answer(OOM),
      'QUORUM_UNAVAILABLE',
    ],
    ['of a shorter node timeout says nothing', 'a', { ttl: 600 }, timeout, 'tries'],
    [
      'of a set that named another key says nothing',
      'ab',
      whole,
      () => room.answer(held(1)),
      'tries',
    ],
    [
      'without a majority for anybody says nothing',
      'a',
      whole,
      () => room.answer(held(0, 'x'), held(0, 'y'), OOM),
      'tries',
    ],
    ['that was cancelled says nothing', 'a', whole, () => ahead.cancel(new Error('left')), 'tries'],
  ])('%s', async (_, keys, options, happen, expected) => {
    ahead = room.call(keys, options);
    await room.environment.advance(20);
    const caller = room.call('a', { wait: 0 });
    await room.flush();
    expect(room.tries()).toEqual([keys]);
    await happen();
    await room.flush();
    if (expected === 'tries') {
      expect(caller.tries).toBe(1);
      return;
    }
    expect([(await caller.outcome).code, caller.tries]).toEqual([expected, 0]);
  });
  let ahead: ReturnType<typeof room.call>;
});

describe('an outage that a try found', () => {
  it.each<[string, number, boolean]>([
    ['is reported to those who come soon after it', 100, false],
    ['says nothing after two node timeouts of the one who comes', 130, false],
    ['says nothing after a later try, on any key, that had a quorum of answers', 100, true],
  ])('%s', async (rule, afterMs, hasQuorumLater) => {
    const ahead = room.call('a');
    await room.answer(OOM);
    await room.environment.advance(afterMs);
    expect([ahead.tries, room.tries()]).toEqual([2, ['a']]);
    if (hasQuorumLater) {
      room.call('z');
      for (const node of room.nodes) node.waiting.reverse();
      await room.answer(held());
    }
    // Its node timeout is 60 ms.
    const caller = room.call('a', { wait: 0, ttl: 600 });
    await room.flush();
    const isReported = rule.startsWith('is');
    expect(caller.waitedMs).toBe(0);
    await room.environment.advance(60);
    const { code, causes } = await caller.outcome;
    const reason = isReported ? 'error' : 'not-tried';
    expect([code, causes[0]]).toMatchObject(['QUORUM_UNAVAILABLE', { reason }]);
  });
});

describe('in random traffic', () => {
  const KEYS = ['a', 'b', 'c'];
  /** The longest jitter after a hint, and the longest back-off. */
  const PAUSE_MS = 40 + 20;

  /** Callers of random sets come and go, other processes take keys and release them, and nodes answer when they like. */
  function traffic(seed: number) {
    const { set, nodes, environment, table, call } = room;
    const random = seededRandom(seed);
    const fraction = () => random.fraction();
    const pick = <Item>(items: readonly Item[]) => items[Math.floor(fraction() * items.length)]!;
    const foreign = new Map<string, string>();
    /** Since when their keys have been free, as far as this process knows. */
    const waiting = new Map<Acquisition, number>();
    const locks = new Set<HeldLock>();
    const idle: unknown[] = [];

    const arrive = () => {
      const keys = KEYS.filter(() => fraction() < 0.45).join('') || pick(KEYS);
      const wait = pick([0, 300, 3_000, 30_000]);
      const caller = call(keys, { wait, isInSection: fraction() < 0.1 });
      waiting.set(caller, set.nowMs);
      void caller.outcome.then(({ lock }) => {
        waiting.delete(caller);
        if (lock !== undefined) locks.add(lock);
      });
    };
    const release = () => {
      const [lock] = locks;
      if (lock !== undefined && locks.delete(lock)) void lock.release();
    };
    const takeElsewhere = () => {
      const key = pick(KEYS);
      if (recordOf(key).lock === undefined) foreign.set(key, `${set.nowMs}`);
    };
    const releaseElsewhere = () => {
      const [[key, holder] = []] = foreign;
      if (key !== undefined && foreign.delete(key)) table.hint(`lock:${key}`, holder!);
    };
    const cancel = () => {
      const [caller] = waiting.keys();
      if (fraction() < 0.2) caller?.cancel(new Error('left'));
    };
    const answer = () => {
      for (const { name, request, settle } of nodes.flatMap((node) => node.waiting.splice(0))) {
        const keys = (request as AcquireRequest).names.locks.map((lock) => lock.slice(5));
        const index = keys.findIndex((key) => foreign.has(key));
        const vote = index === -1 ? ACCEPTED : held(index, foreign.get(keys[index]!));
        const other = { kind: name === 'release' ? 'released' : 'extended' };
        settle((name === 'acquire' ? vote : other) as never);
      }
    };
    const recordOf = (key: string) => {
      const record = table.use(key);
      table.drop(record);
      return record;
    };
    const advance = async (ms: number) => {
      await environment.advance(ms);
      for (const [caller, sinceMs] of waiting) {
        const records = caller.keys.map(recordOf);
        const isFree = records.every(({ lock, trying, claims, foreign: holder }) => {
          const isClaimed = claims.some(({ ticket }) => ticket < caller.ticket);
          const isHeldElsewhere = holder !== undefined && holder.untilMs > set.nowMs;
          return !lock && !trying && !isHeldElsewhere && (!isClaimed || caller.isInSection);
        });
        // The jitter begins with the latest hint.
        const freeSinceMs = Math.max(sinceMs, ...records.map(({ hintAtMs }) => hintAtMs));
        if (!isFree) waiting.set(caller, set.nowMs);
        else if (set.nowMs - freeSinceMs > PAUSE_MS) idle.push([caller.keys.join(''), sinceMs]);
      }
    };
    const often = [arrive, release, answer, answer, answer];
    const events = [...often, arrive, release, takeElsewhere, releaseElsewhere, cancel];
    return {
      idle,
      step: () => (pick(events)(), advance(pick([0, 0, 1, 2, 5, 15]))),
      finish: async () => {
        for (let turn = 0; turn < 4_000 && waiting.size + locks.size > 0; turn += 1) {
          for (const event of [release, releaseElsewhere, answer]) event();
          await advance(5);
        }
        answer();
        return waiting.size;
      },
    };
  }

  it.each([1, 2, 3, 4, 5, 71])(
    'nobody waits for keys that are known to be free, and nothing stays behind (seed %i)',
    async (seed) => {
      const { idle, step, finish } = traffic(seed);
      for (let steps = 0; steps < 600; steps += 1) await step();
      expect([await finish(), idle]).toEqual([0, []]);
      await room.environment.advance(40_000);
      for (const key of KEYS) room.table.drop(room.table.use(key));
      expect([room.table.size, room.environment.pendingTimers]).toEqual([0, 0]);
      expect(room.nodes.map(({ watching }) => watching.size)).toEqual([0, 0, 0]);
    },
  );
});
