import { beforeEach, describe, expect, it } from '@jest/globals';
import { KeyTable } from '../../../../lib/core/holding/key-table.ts';
import type { KeyRecord, Waiter } from '../../../../lib/core/holding/key-table.ts';
import type { ReleaseRequest } from '../../../../lib/core/nodes/lock-node.ts';
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

const caller = (ticket: number) => new Caller(ticket, woken);
const callers = (...tickets: number[]) => tickets.map((ticket) => caller(ticket));
/** Grants and frees it at once. */
function grant(record: KeyRecord): void {
  const lock = lockOf('any');
  table.granted(lock, [record]);
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
      const at = Math.floor(random.fraction() * inLine.length);
      if (random.fraction() < 0.45) for (const one of inLine.splice(at, 1)) a.leave(one);
      else if (!inLine.some((one) => one.ticket === ticket)) {
        inLine.push(caller(ticket));
        a.enter(inLine.at(-1)!);
      }
      expect(line(a)).toEqual(inLine.map((one) => one.ticket).sort((x, y) => x - y));
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

  it('wakes those who are owed an answer as long as they are and stay', () => {
    const all = callers(1, 2, 3, 4);
    for (const one of all) a.enter(one);
    for (const one of all) a.owe(one, one.ticket > 1);
    a.owe(all[1]!, false);
    a.leave(all[2]!);
    a.wakeOwed();
    expect(woken).toEqual([4]);
  });

  it('forgets a foreign holder with the last one who waits for the key, alone or in a set: no one would learn of its release', () => {
    const lock = lockOf('mine');
    table.use('a');
    table.granted(lock, [b]);
    a.foreign = b.foreign = FOREIGN;
    for (const record of [a, b]) table.drop(record);
    expect([a.foreign, b.foreign]).toEqual([FOREIGN, undefined]);
  });
});

describe('a lock of this process', () => {
  it('has its keys from its grant to its end, which wakes those who wait for them', () => {
    const lock = lockOf('mine');
    for (const record of [a, b]) {
      Object.assign(record, { trying: caller(1), foreign: FOREIGN });
      table.use(record.key);
      table.stand(record, 1_000);
      record.enter(caller(2));
      record.enter(caller(3));
      record.owe(record.last!, true);
    }
    table.granted(lock, [a, b]);
    const none = { trying: undefined, foreign: undefined, queued: undefined };
    const granted = { lock, ...none, grantedAtMs: 1_000, busyUntilMs: Number.POSITIVE_INFINITY };
    expect([a, b]).toMatchObject([granted, granted]);
    expect([woken.splice(0), [...table.locks()]]).toEqual([[3, 3], [lock]]);
    for (const record of [a, b]) table.drop(record);
    expect(table.size).toBe(2);
    table.freed(lock, [a, b]);
    expect([woken, [...table.locks()]]).toEqual([[2, 2], []]);
  });

  it('is the only one of its keys here, and ends no other', () => {
    table.granted(lockOf('newer'), [a]);
    expect(() => table.granted(lockOf('other'), [a])).toThrow(/one lock in one process/);
    table.freed(lockOf('older'), [a]);
    expect(a.lock?.holder).toBe('newer');
  });
});

describe('one more node that votes', () => {
  it('wakes all lines, which try after a round trip at most, and ends what was known of holders', async () => {
    await world.environment.advance(50);
    const heads = callers(0, 1);
    for (const [index, record] of [a, b].entries()) record.enter(heads[index]!);
    a.foreign = FOREIGN;
    table.hintAll();
    expect(a.foreign).toBeUndefined();
    const pauses = heads.map(({ fromMs }) => fromMs! - world.set.nowMs);
    expect(pauses.every((ms) => ms >= 0 && ms <= world.set.roundTripMs)).toBe(true);
    expect([woken, table.size]).toEqual([[0, 1], 2]);
  });
});

describe('the turn of this process', () => {
  /** What each node was asked to release, oldest first; a turn that is given back. */
  const passedOn = () =>
    world.nodes.map(({ waiting }) =>
      waiting.flatMap(({ name, request }) => {
        const { holder, granted, pass, names } = request as ReleaseRequest;
        const isPass = holder === `#${world.set.mark}` && granted && pass;
        return name === 'release' && isPass ? names.locks : [];
      }),
    );
  const turn = (lockName: string, keptMs = 0) =>
    table.turn(world.set.sessions[0]!, lockName, keptMs);

  beforeEach(() => world.connect());

  it('is given back at the node that named it where no caller has a place in line, and nothing is while the key is held here', () => {
    turn('lock:a');
    a.trying = caller(1);
    turn('lock:a');
    a.trying = undefined;
    table.granted(lockOf('mine'), [a]);
    turn('lock:a');
    turn('lock:b', 20);
    turn('lock:unknown');
    expect([passedOn(), table.size]).toEqual([[['lock:a', 'lock:a', 'lock:unknown'], []], 2]);
  });

  it('is given back when the last one who waits leaves before a try', async () => {
    a.enter(caller(1));
    table.stand(a, world.set.nowMs);
    turn('lock:a');
    a.leave(a.first!);
    table.drop(a);
    expect([a.queued, passedOn()]).toEqual([undefined, [['lock:a'], []]]);
    await world.environment.advance(10_000);
    expect(world.environment.pendingTimers).toBeLessThan(2);
  });

  it('is not what callers here wait for once it went to others at a release', () => {
    for (const record of [a, b]) record.enter(caller(1));
    a.othersWait = true;
    table.standBehind([a, b], 1_000);
    expect([a.foreign?.untilMs, b.foreign]).toEqual([
      1_000 + world.set.options.acquire.nodeTimeoutMs,
      undefined,
    ]);
    expect([a.queued === undefined, b.queued]).toEqual([false, undefined]);
  });
});

describe('a row of grants', () => {
  const passes = (records: readonly KeyRecord[], atMs: number) => table.passes(records, atMs);

  it('lasts for 40 ms since its first grant', () => {
    const rowMs = 40;
    a.enter(caller(1));
    a.grantedAtMs = 1_000;
    const outcomes = [0, 5, rowMs - 0.1].map((ms) => passes([a], 1_000 + ms));
    a.grantedAtMs = 1_000 + rowMs - 0.1;
    outcomes.push(passes([a], 1_000 + rowMs));
    // The next one begins with the next grant.
    outcomes.push(passes([a], 1_000 + rowMs));
    expect(outcomes).toEqual([false, false, false, true, false]);
  });

  it('ends at once where nobody here waits for the key, and with a set', () => {
    a.grantedAtMs = b.grantedAtMs = 1_000;
    const outcomes = [passes([a], 1_000)];
    for (const record of [a, b]) record.enter(caller(1));
    for (const records of [[b], [a, b]]) outcomes.push(passes(records, 1_000));
    // A row of one of its keys is over as well: the next one there begins with the next grant.
    b.grantedAtMs = 2_000;
    outcomes.push(passes([b], 2_000));
    expect(outcomes).toEqual([true, false, true, false]);
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

describe('what is remembered of a key that no one uses', () => {
  it('is a floor ahead of the clock, of a bounded number of keys, the newest', () => {
    const ahead = wallMicros() + 60_000_000;
    for (let index = 0; index < 5_000; index += 1) {
      const record = table.use(`key${index}`);
      table.sawFloor([record], ahead);
      table.drop(record);
    }
    expect(table.size).toBe(4_096 + 2);
    const keys = ['key0', 'key903', 'key904', 'key4999'];
    expect(keys.map((key) => table.use(key).floor === ahead)).toEqual([false, false, true, true]);
  });

  it('is nothing else, and only as long as that matters', async () => {
    table.sawFloor([a], wallMicros() + 5_000_000);
    a.outage = {} as never;
    grant(a);
    table.drop(a);
    expect(table.use('a')).toMatchObject({
      outage: undefined,
      busyUntilMs: Number.NEGATIVE_INFINITY,
    });
    await world.environment.advance(6_000);
    table.drop(a);
    expect(table.size).toBe(1);
  });
});
