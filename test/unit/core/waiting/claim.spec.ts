import { beforeEach, describe, expect, it } from '@jest/globals';
import { KeyTable } from '../../../../lib/core/holding/key-table.ts';
import type { KeyRecord } from '../../../../lib/core/holding/key-table.ts';
import { Claim } from '../../../../lib/core/waiting/claim.ts';
import { Caller, lockOf } from '../support/callers.ts';
import { scriptedSet } from '../support/scripted-node.ts';

describe('the claim of a set', () => {
  let world: ReturnType<typeof scriptedSet>;
  let table: KeyTable;
  let a: KeyRecord;
  let b: KeyRecord;
  let woken: number[];
  let set: Caller;
  let claim: Claim;

  beforeEach(() => {
    world = scriptedSet();
    table = new KeyTable(world.set);
    [a, b] = [table.use('a'), table.use('b')];
    woken = [];
    set = new Caller(1, woken);
    claim = new Claim(world.set, set, [a, b]);
  });

  /** A lock of `record` for so long, granted to a later arrival. */
  async function hold(record: KeyRecord, holdMs: number): Promise<void> {
    take(record);
    await world.environment.advance(holdMs);
    table.freed(record.lock!, [record]);
  }
  function take(record: KeyRecord): void {
    table.granted(lockOf(`${world.set.nowMs}`), [record], 9);
    claim.passed();
  }
  async function passes(times: number, holdMs = 10): Promise<void> {
    for (let count = 0; count < times; count += 1) await hold(a, holdMs);
  }
  const consider = () => {
    claim.consider(world.set.nowMs);
    return [a, b].map(({ claims }) => claims?.length ?? 0);
  };
  const foreign = { untilMs: 9_000, freeAtMs: 9_000, causes: () => [] };

  it('begins after eight passes', async () => {
    await passes(7);
    expect([consider(), claim.isActive]).toEqual([[0, 0], false]);
    await passes(1);
    expect([consider(), claim.isActive]).toEqual([[1, 1], true]);
    expect(consider()).toEqual([1, 1]);
  });

  it('begins only when no other process is known to hold one of its keys', async () => {
    await passes(20);
    b.foreign = foreign;
    expect(consider()).toEqual([0, 0]);
    b.foreign = undefined;
    expect(consider()).toEqual([1, 1]);
  });

  it('begins only when each key that is held here has changed hands since the count began', async () => {
    table.granted(lockOf('before'), [b], 0);
    claim = new Claim(world.set, set, [a, b]);
    await passes(20);
    expect(consider()).toEqual([0, 0]);
    table.freed(b.lock!, [b]);
    take(b);
    expect(consider()).toEqual([0, 1]);
    claim.end();
    await passes(8);
    expect(consider()).toEqual([0, 0]);
  });

  it.each([
    ['all while the longest hold should be over soon', 41, [1, 1]],
    [
      'one that should be idle for eight of its holds and round trips, and the one it waits for',
      52,
      [1, 1],
    ],
    ['not one that should be idle for longer, but the one it waits for', 53, [0, 1]],
  ])('takes %s', async (_, waitMs, claimed) => {
    const roundTripsMs = 8 * world.set.roundTripMs;
    await hold(b, 500);
    await passes(8, (52 - roundTripsMs) / 8);
    take(b);
    await world.environment.advance(500 - waitMs);
    a.heldMs = (52 - roundTripsMs) / 8;
    expect(consider()).toEqual(claimed);
  });

  it('leaves a key alone that should be idle for longer than the set was passed', async () => {
    await hold(b, 500);
    claim.end();
    take(b);
    for (let count = 0; count < 8; count += 1) claim.passed();
    a.heldMs = 1_000;
    await world.environment.advance(249);
    expect(consider()).toEqual([0, 1]);
    await world.environment.advance(1);
    expect(consider()).toEqual([1, 1]);
  });

  it('expects a hold that is longer than the last one to take as long again', async () => {
    await passes(8, 100);
    await hold(b, 10);
    take(b);
    await world.environment.advance(40);
    expect(consider()).toEqual([1, 1]);
    await world.environment.advance(50 + 10 + 4 * world.set.roundTripMs - 1);
    expect(claim.isActive).toBe(true);
    await world.environment.advance(1);
    expect(claim.isActive).toBe(false);
  });

  it('expects a key that is being tried for to be held as long as last time', async () => {
    await passes(8);
    await hold(b, 500);
    b.trying = new Caller(7);
    expect(consider()).toEqual([0, 1]);
  });

  it('takes what it left alone when it is worth it, and then waits for that', async () => {
    await hold(b, 500);
    await passes(8);
    take(b);
    expect(consider()).toEqual([0, 1]);
    await world.environment.advance(480);
    expect(consider()).toEqual([1, 1]);
    await world.environment.advance(25 + 10 + 4 * world.set.roundTripMs - 1);
    expect(claim.isActive).toBe(true);
    await world.environment.advance(1);
    expect(claim.isActive).toBe(false);
  });

  it('lapses, wakes the lines, and counts again', async () => {
    await passes(8);
    for (const [ticket, record] of [a, b].entries()) record.enter(new Caller(2 + ticket, woken));
    consider();
    await world.environment.advance(10 + 4 * world.set.roundTripMs - 1);
    expect([claim.isActive, woken]).toEqual([true, []]);
    await world.environment.advance(1);
    expect([claim.isActive, woken]).toEqual([false, [2, 3]]);
    expect(consider()).toEqual([0, 0]);
  });

  it('leaves nothing behind when it ends early, and ends once', async () => {
    const other = new Caller(5);
    for (const record of [a, b]) record.claims = [other];
    await passes(8);
    consider();
    claim.end();
    woken.length = 0;
    claim.end();
    await world.environment.advance(10_000);
    expect([a.claims, b.claims, woken]).toEqual([[other], [other], []]);
    expect(world.environment.pendingTimers).toBe(0);
  });
});
