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

  /** So many passes, 10 ms apart; before each of them `record` is granted. */
  async function pass(times: number, record = a): Promise<void> {
    for (let count = 0; count < times; count += 1) {
      await world.environment.advance(10);
      if (record.lock !== undefined) table.freed(record.lock, [record]);
      table.granted(lockOf(`${world.set.nowMs}`), [record], 9);
      claim.passed();
    }
  }
  const claimed = () => [a, b].map(({ claims }) => claims?.length ?? 0);
  const foreign = { untilMs: 9_000, freeAtMs: 9_000, causes: () => [] };

  it('begins with the eighth pass, of all its keys, and wakes it', async () => {
    await pass(7);
    expect([claim.isActive, claimed()]).toEqual([false, [0, 0]]);
    await pass(1);
    expect([claim.isActive, claimed(), woken]).toEqual([true, [1, 1], [1]]);
    await pass(2);
    expect(claimed()).toEqual([1, 1]);
  });

  it.each([
    [
      'another process holds one of its keys',
      () => (b.foreign = foreign),
      () => (b.foreign = undefined),
    ],
    [
      'one that is held here has not changed hands',
      () => (b.lock = lockOf('long')),
      () => (b.lock = undefined),
    ],
  ])('does not begin while %s, but with the next pass after that', async (_, begin, end) => {
    begin();
    await pass(20);
    expect([claim.isActive, claimed(), woken]).toEqual([false, [0, 0], []]);
    end();
    await pass(1);
    expect(claim.isActive).toBe(true);
  });

  it('begins where each key that is held has changed hands since the count began', async () => {
    await pass(7);
    await pass(1, b);
    expect([claim.isActive, a.lock === undefined, b.lock === undefined]).toEqual([
      true,
      false,
      false,
    ]);
    claim.end();
    await pass(8);
    expect(claim.isActive).toBe(false);
    await pass(1, b);
    expect(claim.isActive).toBe(true);
  });

  it.each([
    ['as much time as the passes took', 100, 80],
    ['four of the longest holds and round trips meanwhile', 13, 60],
  ])('lapses after %s, wakes the lines, and counts again', async (_, longestHoldMs, lapsesMs) => {
    for (const [ticket, record] of [a, b].entries()) record.enter(new Caller(2 + ticket, woken));
    b.heldMs = longestHoldMs;
    await pass(8);
    await world.environment.advance(lapsesMs - 1);
    expect([claim.isActive, claimed()]).toEqual([true, [1, 1]]);
    woken.length = 0;
    await world.environment.advance(1);
    expect([claim.isActive, claimed(), woken]).toEqual([false, [0, 0], [2, 3]]);
    await pass(8);
    await world.environment.advance(79);
    expect(claim.isActive).toBe(true);
    await world.environment.advance(1);
    expect(claim.isActive).toBe(false);
  });

  it('leaves nothing behind when it ends early, and ends once', async () => {
    const other = new Caller(5);
    for (const record of [a, b]) record.claims = [other];
    await pass(8);
    claim.end();
    woken.length = 0;
    claim.end();
    await world.environment.advance(10_000);
    expect([a.claims, b.claims, woken]).toEqual([[other], [other], []]);
    expect(world.environment.pendingTimers).toBe(0);
  });

  it('lasts a millisecond at least when the passes took no time', async () => {
    for (let count = 0; count < 8; count += 1) claim.passed();
    expect(claim.isActive).toBe(true);
    await world.environment.advance(1);
    expect(claim.isActive).toBe(false);
  });
});
