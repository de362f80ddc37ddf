import { beforeEach, describe, expect, it } from '@jest/globals';
import { isUnbound, KeyTable } from '../../../../lib/core/holding/key-table.ts';
import type { KeyRecord, Waiter } from '../../../../lib/core/holding/key-table.ts';
import { Turns } from '../../../../lib/core/holding/turns.ts';
import { seededRandom } from '../../../support/manual-environment.ts';
import { Caller, lockOf } from '../support/callers.ts';
import { scriptedSet } from '../support/scripted-node.ts';

let world: ReturnType<typeof scriptedSet>;
let table: KeyTable;
/** Tickets of those who were woken, in order. */
let woken: number[];
let a: KeyRecord;
let b: KeyRecord;

beforeEach(() => {
  world = scriptedSet({ size: 2 });
  table = new KeyTable(world.set);
  woken = [];
  [a, b] = [table.use('a'), table.use('b')];
});

const caller = (ticket: number, isImpatient = false) => new Caller(ticket, woken, isImpatient);
const callers = (...tickets: number[]) => tickets.map((ticket) => caller(ticket));
/** Grants and frees it at once. */
function grant(record: KeyRecord, ticket = 9): void {
  const lock = lockOf('any');
  table.granted(lock, [record], ticket);
  table.freed(lock, [record]);
}
const FOREIGN = { untilMs: 9_000, freeAtMs: 9_000, causes: () => [] };
const wallMicros = () => world.environment.clock.wallMicros();

/** The tickets in line, read from both ends. */
function line(record: KeyRecord): number[] {
  const tickets: number[] = [];
  for (let each = record.first; each !== undefined; each = each.nextInLine)
    tickets.push(each.ticket);
  const back: number[] = [];
  for (let each = record.last; each !== undefined; each = each.previousInLine)
    back.unshift(each.ticket);
  expect(back).toEqual(tickets);
  return tickets;
}

describe('the record of a key', () => {
  it('is one while anybody uses it, and gone afterwards', () => {
    expect([table.use('a') === a, table.size]).toEqual([true, 2]);
    table.drop(a);
    expect(table.size).toBe(2);
    table.drop(a);
    expect([table.size, table.use('a') === a]).toEqual([1, false]);
  });
});

describe('the line of a key', () => {
  it('is in order of arrival, wherever and whenever one enters or leaves', () => {
    const random = seededRandom(3);
    const inLine: Caller[] = [];
    for (let step = 0; step < 500; step += 1) {
      const ticket = random.fraction() < 0.5 ? step : Math.floor(random.fraction() * step);
      const isImpatient = random.fraction() < 0.3;
      const at = Math.floor(random.fraction() * inLine.length);
      if (random.fraction() < 0.45) for (const one of inLine.splice(at, 1)) a.leave(one);
      else if (!inLine.some((one) => one.ticket === ticket)) {
        inLine.push(caller(ticket, isImpatient));
        a.enter(inLine.at(-1)!);
      }
      expect(line(a)).toEqual(inLine.map((one) => one.ticket).sort((x, y) => x - y));
      expect(a.impatient).toBe(inLine.filter((one) => one.isImpatient).length);
      expect(inLine.every(({ place }) => place === a)).toBe(true);
    }
  });

  it('is left without a walk along it', () => {
    let reads = 0;
    const all = Array.from({ length: 1_000 }, (_, ticket) => {
      let next: Waiter | undefined;
      return Object.defineProperty(caller(ticket), 'nextInLine', {
        get: () => (reads++, next),
        set: (after) => {
          next = after;
        },
      });
    });
    for (const one of all) a.enter(one);
    reads = 0;
    a.leave(all[500]!);
    a.leave(all[999]!);
    expect([reads > 0, reads < 10]).toEqual([true, true]);
  });

  it('hands the wake-up of a head that leaves on to the next, and that of no other', () => {
    const [first, second, third] = callers(1, 2, 3);
    for (const one of [first!, second!, third!]) a.enter(one);
    a.leave(second!);
    expect(woken).toEqual([]);
    a.leave(first!);
    expect([woken, first!.place]).toEqual([[3], undefined]);
  });

  it('wakes those who claim the key and then its head, or all who wait for one answer', () => {
    for (const ticket of [1, 2, 3, 4]) a.enter(caller(ticket, ticket % 2 === 0));
    a.claims = [caller(7)];
    a.wake();
    expect(woken.splice(0)).toEqual([7, 1]);
    a.wakeImpatient();
    expect(woken).toEqual([2, 4]);
  });

  it('forgets a foreign holder with its last one: no one would learn of its release', () => {
    const [first, second] = callers(1, 2);
    for (const one of [first!, second!]) a.enter(one);
    a.foreign = b.foreign = FOREIGN;
    a.leave(first!);
    expect(a.foreign).toBe(FOREIGN);
    a.leave(second!);
    table.drop(table.use('b'));
    expect([a.foreign, b.foreign]).toEqual([undefined, undefined]);
  });

  it('keeps a foreign holder for those who listen from another line', () => {
    const [first, set] = callers(1, 2);
    b.enter(set!);
    table.subscribe(a);
    a.enter(first!);
    a.foreign = FOREIGN;
    a.leave(first!);
    table.drop(table.use('a'));
    expect(a.foreign).toBe(FOREIGN);
  });
});

describe('a lock of this process', () => {
  it('has its keys from its grant to its end, which wakes those who wait for them', () => {
    const lock = lockOf('mine');
    for (const record of [a, b]) {
      Object.assign(record, { trying: caller(1), foreign: FOREIGN });
      record.turns = Object.assign(new Turns(), { hasSteppedBack: true });
      table.subscribe(record);
      record.enter(caller(2));
      record.enter(caller(3, true));
    }
    table.granted(lock, [a, b], 1);
    const granted = { lock, trying: undefined, foreign: undefined, turnover: 1, busyAtMs: 1_000 };
    expect([a, b]).toMatchObject([granted, { ...granted, turns: { hasSteppedBack: false } }]);
    expect([woken.splice(0), [...table.locks()]]).toEqual([[3, 3], [lock]]);
    for (const record of [a, b]) table.drop(record);
    expect(table.size).toBe(2);
    table.freed(lock, [a, b]);
    expect([woken, [...table.locks()]]).toEqual([[2, 2], []]);
    expect([a.isOwn('mine'), b.isOwn('mine')]).toEqual([true, true]);
  });

  it('is the only one of its keys here, and ends no other', () => {
    table.granted(lockOf('newer'), [a], 2);
    expect(() => table.granted(lockOf('other'), [a], 3)).toThrow(/one lock in one process/);
    table.freed(lockOf('older'), [a]);
    expect(a.lock?.holder).toBe('newer');
  });

  it('passes the sets that came before it and wait for one of its keys, and no others', () => {
    const [earlier, later] = callers(1, 9);
    for (const record of [a, b]) record.sets = new Set([earlier!, later!]);
    grant(a, 5);
    grant(b, 6);
    grant(b, 1);
    expect([earlier!.passes, later!.passes]).toEqual([2, 0]);
  });
});

describe('a hint', () => {
  it('wakes the line of its key, counts, and ends what was known of the holder', async () => {
    await world.environment.advance(50);
    for (const [index, record] of [a, b].entries()) record.enter(caller(index));
    Object.assign(a, {
      foreign: FOREIGN,
      turns: Object.assign(new Turns(), { notBeforeMs: 9_000 }),
    });
    table.hint('lock:a', 'elsewhere');
    const turns = { notBeforeMs: 0 };
    expect(a).toMatchObject({ hints: 1, hintAtMs: 1_050, foreign: undefined, turns });
    expect([woken, b.hints]).toEqual([[0], 0]);
    table.hint('lock:unknown', 'elsewhere');
    table.hint('lock:a', null);
    // One more node votes: everybody looks again.
    table.hintAll();
    expect([woken, a.hints, table.size]).toEqual([[0, 0, 0, 1], 3, 2]);
  });

  it('of a release of our own says nothing; as many holders are known as can be on their way', () => {
    a.enter(caller(1));
    for (let number = 0; number < 9; number += 1) a.published(`mine${number}`);
    for (const number of [1, 8]) table.hint('lock:a', `mine${number}`);
    expect(woken).toEqual([]);
    table.hint('lock:a', 'mine0');
    expect(woken).toEqual([1]);
  });
});

describe('the subscription to a key', () => {
  const watched = () => world.nodes.map(({ watching }) => [...watching].join());
  const BOTH = ['lock:a', 'lock:a'];

  it('is made on every node, and ends a second after the last waiter, with the record', async () => {
    for (const _ of [1, 2]) table.subscribe(a);
    table.drop(a);
    for (const _ of [1, 2]) {
      await world.environment.advance(5_000);
      expect([watched(), table.size]).toEqual([BOTH, 2]);
      table.unsubscribe(a);
    }
    await world.environment.advance(999);
    expect([watched(), table.size]).toEqual([BOTH, 2]);
    await world.environment.advance(1);
    expect([watched(), table.size]).toEqual([['', ''], 1]);
    table.subscribe(table.use('a'));
    expect(watched()).toEqual(BOTH);
  });

  it('goes on for the next waiter that comes within that second', async () => {
    table.subscribe(a);
    table.unsubscribe(a);
    await world.environment.advance(600);
    for (const { watching } of world.nodes) watching.clear();
    table.subscribe(a);
    await world.environment.advance(5_000);
    expect([watched(), a.isSubscribed]).toEqual([['', ''], true]);
  });
});

describe('a ballot', () => {
  const START = 1_790_000_001_000_000;
  const next = (...records: KeyRecord[]) => table.nextBallot(records) - START;

  it('is the wall clock, or one more than a floor that is not below it', () => {
    table.sawFloor([a], START + 5_000_000);
    expect([next(a), next(b), next(b, a)]).toEqual([5_000_001, 0, 5_000_002]);
    const c = table.use('c');
    table.sawFloor([c], START);
    expect(next(c)).toBe(1);
  });

  it('is never the same twice while it is ahead of the clock, and above the highest floor, not the last', () => {
    for (const floor of [5_000_000, 1]) table.sawFloor([a], START + floor);
    expect([next(a, b), next(b), next(a)]).toEqual([5_000_001, 5_000_002, 5_000_002]);
  });

  it('is the clock again once that has passed the floor, and floors behind it are not kept', async () => {
    table.sawFloor([a], START + 5_000_000);
    await world.environment.advance(6_000);
    expect(next(a)).toBe(6_000_000);
    table.sawFloor([b], START + 5_999_999);
    expect(b.floor).toBe(0);
  });
});

describe('a caller inside a section', () => {
  it('is not bound by claims while others wait for a key of its lock, until that is over', () => {
    const lock = lockOf('outer', [a, b]);
    const nested = Object.assign(caller(9), { enclosing: [lock] });
    const seen = [isUnbound(caller(8))];
    a.lock = b.lock = lock;
    const look = () => seen.push(isUnbound(nested));
    look();
    b.sets = new Set([caller(2)]);
    look();
    b.sets.clear();
    a.enter(caller(3));
    look();
    a.lock = b.lock = undefined;
    look();
    expect(seen).toEqual([false, false, true, true, false]);
  });
});

describe('grants in a row', () => {
  it('are counted when others received the release, among whom we may be', () => {
    for (const listeners of [1, 2]) table.counted('a', listeners);
    expect(a.turns?.grantsInARow).toBe(2);
    table.subscribe(a);
    table.counted('a', 2);
    expect(a.turns?.grantsInARow).toBe(3);
    table.counted('a', 1);
    table.counted('never used', 0);
    expect([a.turns?.grantsInARow, table.size]).toEqual([0, 2]);
  });

  it('are counted where all servers refuse to say when a lock is released: then we are not among those who receive it', () => {
    table.subscribe(a);
    const { sessions } = world.set;
    sessions[0]!.refusesWatches = true;
    table.counted('a', 1);
    expect(a.turns).toBeUndefined();
    sessions[1]!.refusesWatches = true;
    table.counted('a', 1);
    expect([a.turns?.grantsInARow, a.turns?.rivals]).toEqual([1, 1]);
  });

  it('are not ended by a release of our own that comes back to one who listens since', () => {
    a.turns = new Turns();
    const lock = lockOf('any');
    table.granted(lock, [a], 9);
    table.freed(lock, [a]);
    table.subscribe(a);
    table.hint('lock:a', lock.holder);
    expect([a.hints, a.turns.passed]).toEqual([0, 0]);
  });
});

describe('a release that need not be published', () => {
  it('says nothing of others while the next caller here tries, and that there are none otherwise', () => {
    table.counted('a', 3);
    expect([a.turns?.grantsInARow, a.turns?.rivals]).toEqual([1, 3]);
    a.trying = caller(1);
    table.counted('a', 0, true);
    expect([a.turns?.grantsInARow, a.turns?.rivals]).toEqual([2, 3]);
    a.trying = undefined;
    table.counted('a', 0, true);
    expect([a.turns?.grantsInARow, a.turns?.rivals]).toEqual([0, 0]);
  });
});

describe('a release of another process', () => {
  it('counts in the order of processes, also for one that never had the key; one of this process does not', () => {
    const hint = (holder: string | null) => table.hint('lock:a', holder);
    hint(null);
    expect(a.turns).toBeUndefined();
    a.published('own');
    hint('own');
    hint('one-1');
    hint('two-1');
    expect([a.turns?.passed, a.turns?.rivals]).toEqual([2, 0]);
  });
});

describe('what is remembered of a key that no one uses', () => {
  it('is a floor ahead of the clock or grants in a row, of a bounded number of keys, the newest', () => {
    const ahead = wallMicros() + 60_000_000;
    table.counted('b', 1);
    table.drop(b);
    table.counted('a', 1);
    for (let index = 0; index < 5_000; index += 1) {
      const record = table.use(`key${index}`);
      if (index % 2 === 0) table.sawFloor([record], ahead);
      else table.counted(record.key, 1);
      table.drop(record);
    }
    expect(table.size).toBe(4_096 + 1);
    const remembers = (key: string) => {
      const { floor, turns } = table.use(key);
      return floor === ahead || turns?.grantsInARow === 1;
    };
    const keys = ['b', 'key0', 'key903', 'key904', 'key4999', 'a'];
    expect(keys.map(remembers)).toEqual([false, false, false, true, true, true]);
  });

  it('is nothing else, and only as long as that matters', async () => {
    table.sawFloor([a], wallMicros() + 5_000_000);
    a.outage = {} as never;
    grant(a);
    table.drop(a);
    expect(table.use('a')).toMatchObject({ outage: undefined, busyAtMs: Number.NEGATIVE_INFINITY });
    await world.environment.advance(6_000);
    table.drop(a);
    expect(table.size).toBe(1);
  });
});
