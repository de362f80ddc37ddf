import { beforeEach, describe, expect, it } from '@jest/globals';
import { KeyTable } from '../../../../lib/core/holding/key-table.ts';
import type { KeyRecord, Waiter } from '../../../../lib/core/holding/key-table.ts';
import { seededRandom } from '../../../support/manual-environment.ts';
import { Caller, lockOf } from '../support/callers.ts';
import { scriptedSet } from '../support/scripted-node.ts';

let world: ReturnType<typeof scriptedSet>;
let table: KeyTable;
/** Tickets of those who were woken, in order. */
let woken: number[];

beforeEach(() => {
  world = scriptedSet({ size: 2 });
  table = new KeyTable(world.set);
  woken = [];
});

const caller = (ticket: number, isImpatient = false) => new Caller(ticket, woken, isImpatient);

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
    const [first, second] = [table.use('a'), table.use('a')];
    expect([second, table.size]).toEqual([first, 1]);
    table.drop(first);
    expect(table.size).toBe(1);
    table.drop(second);
    expect(table.size).toBe(0);
    expect(table.use('a')).not.toBe(first);
  });
});

describe('the line of a key', () => {
  it('is in order of arrival, wherever and whenever one enters or leaves', () => {
    const { fraction } = seededRandom(3);
    const record = table.use('a');
    const inLine: Caller[] = [];
    for (let step = 0; step < 500; step += 1) {
      if (fraction() < 0.55) {
        const arriving = fraction() < 0.5;
        const one = caller(arriving ? step : Math.floor(fraction() * step), fraction() < 0.3);
        if (inLine.some(({ ticket }) => ticket === one.ticket)) continue;
        inLine.push(one);
        record.enter(one);
      } else {
        const [one] = inLine.splice(Math.floor(fraction() * inLine.length), 1);
        if (one !== undefined) record.leave(one);
      }
      const tickets = inLine.map(({ ticket }) => ticket).sort((a, b) => a - b);
      expect(line(record)).toEqual(tickets);
      expect(record.impatient).toBe(inLine.filter(({ isImpatient }) => isImpatient).length);
      expect(inLine.every(({ place }) => place === record)).toBe(true);
    }
  });

  it('is left without a walk along it', () => {
    let reads = 0;
    const all = Array.from({ length: 1_000 }, (_, ticket) => {
      let next: Waiter | undefined;
      return Object.defineProperty(caller(ticket), 'nextInLine', {
        get: () => (reads++, next),
        set: (after) => (next = after),
      });
    });
    const record = table.use('a');
    for (const one of all) record.enter(one);
    reads = 0;
    record.leave(all[500]!);
    record.leave(all[999]!);
    expect([reads > 0, reads < 10]).toEqual([true, true]);
  });

  it('hands the wake-up of a head that leaves on to the next, and of nobody else', () => {
    const record = table.use('a');
    const [first, second, third] = [1, 2, 3].map((ticket) => caller(ticket));
    for (const one of [first!, second!, third!]) record.enter(one);
    record.leave(second!);
    expect(woken).toEqual([]);
    record.leave(first!);
    expect([woken, first!.place]).toEqual([[3], undefined]);
  });

  it('wakes its head, and those who claim the key before it', () => {
    const record = table.use('a');
    for (const ticket of [1, 2]) record.enter(caller(ticket));
    record.claims.push(caller(7));
    record.wake();
    expect(woken).toEqual([7, 1]);
  });

  it('wakes all who wait for no more than one answer when there is one', () => {
    const record = table.use('a');
    for (const ticket of [1, 2, 3, 4]) record.enter(caller(ticket, ticket % 2 === 0));
    record.wakeImpatient();
    expect(woken).toEqual([2, 4]);
  });

  it('forgets a foreign holder with its last one: nobody would learn of its release', () => {
    const record = table.use('a');
    const [first, second] = [caller(1), caller(2)];
    const holder = { untilMs: 9, freeAtMs: 9, causes: () => [] };
    record.enter(first);
    record.enter(second);
    record.foreign = holder;
    record.leave(first);
    expect(record.foreign).toBe(holder);
    record.leave(second);
    expect(record.foreign).toBeUndefined();
    record.foreign = holder;
    table.use('a');
    table.drop(record);
    expect(record.foreign).toBeUndefined();
  });
});

describe('a lock of this process', () => {
  it('has its keys from its grant to its end, which wakes who waits for them', () => {
    const records = ['a', 'b'].map((key) => table.use(key));
    const lock = lockOf('mine');
    for (const record of records) {
      record.trying = caller(1);
      record.foreign = { untilMs: 9, freeAtMs: 9, causes: () => [] };
      record.hasSteppedBack = true;
      record.enter(caller(2));
      record.enter(caller(3, true));
    }
    table.granted(lock, records, 1);
    const granted = { lock, trying: undefined, foreign: undefined, turnover: 1, busyAtMs: 1_000 };
    for (const record of records)
      expect(record).toMatchObject({ ...granted, hasSteppedBack: false });
    expect([woken.splice(0), [...table.locks()]]).toEqual([[3, 3], [lock]]);
    for (const record of records) table.drop(record);
    expect(table.size).toBe(2);
    for (const record of records)
      for (const ticket of [2, 3]) expect(line(record)).toContain(ticket);
    table.freed(lock, records);
    expect([woken, [...table.locks()], table.size]).toEqual([[2, 2], [], 0]);
    expect(records.map((record) => record.isOwn('mine'))).toEqual([true, true]);
  });

  it('does not end a newer one on its key', () => {
    const record = table.use('a');
    const [older, newer] = [lockOf('older'), lockOf('newer')];
    table.granted(older, [record], 1);
    table.granted(newer, [record], 2);
    table.freed(older, [record]);
    expect(record.lock).toBe(newer);
  });

  it('passes the sets that came before it and wait for one of its keys, and no others', () => {
    const [a, b] = ['a', 'b'].map((key) => table.use(key));
    const [earlier, later] = [caller(1), caller(9)];
    for (const record of [a!, b!]) for (const set of [earlier, later]) record.sets.add(set);
    table.granted(lockOf('first'), [a!], 5);
    table.granted(lockOf('second'), [b!], 6);
    table.granted(lockOf('same'), [b!], 1);
    expect([earlier.passes, later.passes]).toEqual([2, 0]);
  });
});

describe('a hint', () => {
  it('wakes the line of its key, counts, and ends what was known of the holder', async () => {
    await world.environment.advance(50);
    const [a, b] = ['a', 'b'].map((key) => table.use(key));
    a!.enter(caller(1));
    b!.enter(caller(2));
    a!.foreign = { untilMs: 900, freeAtMs: 900, causes: () => [] };
    a!.notBeforeMs = 900;
    table.hint('lock:a', 'elsewhere');
    expect(a).toMatchObject({ hints: 1, hintAtMs: 1_050, foreign: undefined, notBeforeMs: 0 });
    expect([woken, b!.hints]).toEqual([[1], 0]);
    table.hint('lock:a', null);
    table.hint('lock:unknown', 'elsewhere');
    expect([woken, a!.hints, table.size]).toEqual([[1, 1], 2, 2]);
  });

  it('of a release of our own says nothing; as many holders are known as can be on their way', () => {
    const record = table.use('a');
    record.enter(caller(1));
    for (let number = 0; number < 9; number += 1) record.published(`mine${number}`);
    table.hint('lock:a', 'mine1');
    table.hint('lock:a', 'mine8');
    expect(woken).toEqual([]);
    table.hint('lock:a', 'mine0');
    expect(woken).toEqual([1]);
  });

  it('goes to every line when one more node votes', () => {
    for (const [index, key] of ['a', 'b', 'c'].entries()) table.use(key).enter(caller(index));
    table.hintAll();
    expect(woken).toEqual([0, 1, 2]);
  });
});

describe('the subscription to a key', () => {
  const watched = () => world.nodes.map(({ watching }) => [...watching]);

  it('is made on every node, and ends a second after the last waiter, with the record', async () => {
    const record = table.use('a');
    table.subscribe(record);
    table.subscribe(record);
    expect(watched()).toEqual([['lock:a'], ['lock:a']]);
    table.unsubscribe(record);
    await world.environment.advance(5_000);
    table.unsubscribe(record);
    table.drop(record);
    await world.environment.advance(999);
    expect([watched(), table.size]).toEqual([[['lock:a'], ['lock:a']], 1]);
    await world.environment.advance(1);
    expect([watched(), table.size]).toEqual([[[], []], 0]);
    table.subscribe(table.use('a'));
    expect(watched()).toEqual([['lock:a'], ['lock:a']]);
  });

  it('goes on for the next waiter that comes within that second', async () => {
    const record = table.use('a');
    table.subscribe(record);
    table.unsubscribe(record);
    await world.environment.advance(600);
    table.subscribe(record);
    await world.environment.advance(5_000);
    expect([watched(), record.isSubscribed]).toEqual([[['lock:a'], ['lock:a']], true]);
  });
});

describe('ballots', () => {
  const START = 1_790_000_001_000_000;
  const AHEAD = START + 5_000_000;
  const records = (...keys: string[]) => keys.map((key) => table.use(key));
  const next = (...keys: string[]) => table.nextBallot(records(...keys)) - START;

  it('are the wall clock', () => {
    expect(next('a')).toBe(0);
  });

  it('are one more than a floor that is ahead of the clock, or equal to it', () => {
    table.sawFloor(records('a'), AHEAD);
    expect([next('a'), next('b'), next('b', 'a')]).toEqual([5_000_001, 0, 5_000_002]);
    table.sawFloor(records('c'), START);
    expect(next('c')).toBe(1);
  });

  it('are never the same twice while they are ahead of the clock', () => {
    table.sawFloor(records('a'), AHEAD);
    expect([next('a', 'b'), next('b'), next('a')]).toEqual([5_000_001, 5_000_002, 5_000_002]);
  });

  it('are above the highest floor that was seen, not above the last', () => {
    table.sawFloor(records('a'), AHEAD);
    table.sawFloor(records('a'), START + 1);
    expect(next('a')).toBe(5_000_001);
  });

  it('are the clock again once it has passed the floor, and floors behind it are not kept', async () => {
    table.sawFloor(records('a'), AHEAD);
    await world.environment.advance(6_000);
    expect(next('a')).toBe(6_000_000);
    const [record] = records('b');
    table.sawFloor([record!], START + 5_999_999);
    expect(record!.floor).toBe(0);
  });
});

describe('grants in a row while others wait', () => {
  it('are counted when others received the release, among whom we may be', () => {
    const record = table.use('a');
    table.counted('a', 1);
    table.counted('a', 2);
    expect(record.grantsInARow).toBe(2);
    table.subscribe(record);
    table.counted('a', 2);
    expect(record.grantsInARow).toBe(3);
    table.counted('a', 1);
    expect(record.grantsInARow).toBe(0);
    table.counted('never used', 0);
    expect(table.size).toBe(1);
  });

  it('are four at most, then it is the turn of others until the next grant', () => {
    const record = table.use('a');
    for (let grants = 0; grants < 3; grants += 1) table.counted('a', 1);
    expect([record.takeStepBack(), record.hasSteppedBack]).toEqual([false, false]);
    table.counted('a', 1);
    expect([record.takeStepBack(), record.hasSteppedBack]).toEqual([true, true]);
    expect([record.takeStepBack(), record.grantsInARow]).toEqual([false, 0]);
    table.granted(lockOf('mine'), [record], 1);
    expect(record.hasSteppedBack).toBe(false);
  });
});

describe('what is remembered of a key that nobody uses', () => {
  it('is a floor ahead of the clock or grants in a row, of a bounded number of keys, the newest', () => {
    const ahead = world.environment.clock.wallMicros() + 60_000_000;
    for (let index = 0; index < 5_000; index += 1) {
      const record = table.use(`key${index}`);
      if (index % 2 === 0) table.sawFloor([record], ahead);
      else table.counted(record.key, 1);
      table.drop(record);
    }
    expect(table.size).toBe(4_096);
    const remembers = (index: number) => {
      const record = table.use(`key${index}`);
      return record.floor === ahead || record.grantsInARow === 1;
    };
    expect([0, 903, 904, 4_999].map(remembers)).toEqual([false, false, true, true]);
  });

  it('is nothing when there is nothing to remember, and no more than that', async () => {
    const record = table.use('a');
    table.sawFloor([record], world.environment.clock.wallMicros() + 5_000_000);
    table.granted(lockOf('mine'), [record], 1);
    record.outage = {} as never;
    table.freed(lockOf('mine'), [record]);
    table.drop(record);
    expect(table.size).toBe(1);
    expect(record).toMatchObject({ outage: undefined, busyAtMs: Number.NEGATIVE_INFINITY });
    await world.environment.advance(6_000);
    table.drop(table.use('a'));
    expect(table.size).toBe(0);
  });

  it('is kept of a key that is used again, however many are remembered meanwhile', () => {
    const [first] = ['a', 'b'].map((key) => {
      table.counted(key, 1);
      return table.use(key);
    });
    for (let index = 0; index < 5_000; index += 1) table.counted(`key${index}`, 1);
    expect(table.use('a')).toBe(first);
  });
});
