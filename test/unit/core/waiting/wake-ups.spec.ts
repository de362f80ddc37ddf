import { describe, expect, it } from '@jest/globals';
import type { HeldLock } from '../../../../lib/core/holding/held-lock.ts';
import type { AcquireRequest } from '../../../../lib/core/nodes/lock-node.ts';
import type { Acquisition } from '../../../../lib/core/waiting/acquisition.ts';
import { seededRandom } from '../../../support/manual-environment.ts';
import { lockOf } from '../support/callers.ts';
import { ACCEPTED, held, newRoom } from '../support/waiting-room.ts';

const KEYS = ['a', 'b', 'c'];
/** The longest jitter after a hint, and the longest back-off. */
const PAUSE_MS = 40 + 20;

/** Callers of random sets come and go, other processes take keys and release them, and nodes answer when they like. */
function newTraffic(seed: number) {
  const room = newRoom();
  const { set, nodes, table, call } = room;
  const random = seededRandom(seed);
  const fraction = () => random.fraction();
  const pick = <Item>(items: readonly Item[]) => items[Math.floor(fraction() * items.length)]!;
  const foreign = new Map<string, string>();
  /** Keys that are held elsewhere, as this process knows while it stands in line for them, and until when it need not ask. */
  const known = new Map<string, number>();
  /** Since when their keys have been free, as far as this process knows. */
  const waiting = new Map<Acquisition, number>();
  const locks = new Set<HeldLock>();
  /** Callers that waited without a reason, and tries that could not succeed. */
  const mistakes: string[] = [];

  const recordOf = (key: string) => {
    const record = table.use(key);
    table.drop(record);
    return record;
  };
  const arrive = () => {
    const keys = KEYS.filter(() => fraction() < 0.45).join('') || pick(KEYS);
    const wait = pick([0, 300, 3_000, 30_000]);
    const enclosing = fraction() < 0.1 ? [lockOf('outer')] : undefined;
    const caller = call(keys, { wait, enclosing });
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
    const [key] = foreign.keys();
    if (key === undefined || !foreign.delete(key)) return;
    known.delete(key);
    // All nodes keep the key for this process, which may not wait any more.
    for (const session of set.sessions) table.turn(session, `lock:${key}`, 0);
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
      const freeInMs = index !== -1 ? 60_000 : recordOf(keys[0]!).lock === undefined ? -1 : 0;
      if (name === 'wait' && index === -1) known.delete(keys[0]!);
      const replies: Record<string, object> = {
        acquire: vote,
        wait: { kind: 'waiting', ticket: 1, freeInMs },
        release: { kind: 'released' },
        extend: { kind: 'extended' },
      };
      settle(replies[name] as never);
    }
  };
  const look = () => {
    for (const key of KEYS) {
      const { trying, foreign: holder, queued } = recordOf(key);
      if (holder !== undefined) known.set(key, holder.untilMs);
      if (queued === undefined) known.delete(key);
      if (trying !== undefined && (known.get(key) ?? 0) > set.nowMs)
        mistakes.push(`tried for ${key}`);
    }
    for (const [caller, sinceMs] of waiting) {
      const records = caller.keys.map(recordOf);
      const isFree = records.every((record) => {
        const { lock, trying, foreign: holder } = record;
        const isHeldElsewhere = holder !== undefined && holder.untilMs > set.nowMs;
        return !lock && !trying && !isHeldElsewhere && !record.isReserved(caller.ticket, set.nowMs);
      });
      if (!isFree) waiting.set(caller, set.nowMs);
      else if (set.nowMs - sinceMs > PAUSE_MS) mistakes.push(`waited for ${caller.keys.join()}`);
    }
  };
  const advance = async (ms: number) => {
    await room.advance(ms);
    look();
  };
  const often = [arrive, release, answer, answer, answer];
  const events = [...often, arrive, release, takeElsewhere, releaseElsewhere, cancel];
  const step = () => (pick(events)(), advance(pick([0, 0, 1, 2, 5, 15])));
  const finish = async () => {
    for (let turn = 0; turn < 4_000 && waiting.size + locks.size > 0; turn += 1) {
      for (const event of [release, releaseElsewhere, answer]) event();
      await advance(5);
    }
    answer();
    // The timers of the longest budget are over, too.
    await room.advance(40_000);
    for (const key of KEYS) recordOf(key);
    return waiting.size + table.size + room.environment.pendingTimers;
  };
  return { mistakes, step, finish };
}

describe('in random traffic', () => {
  it.each([1, 2, 3, 15, 36, 71])(
    'no caller waits for keys that are free, or tries for keys that are held, as far as is known (seed %i)',
    async (seed) => {
      const { mistakes, step, finish } = newTraffic(seed);
      for (let steps = 0; steps < 600; steps += 1) await step();
      expect([await finish(), [...new Set(mistakes)]]).toEqual([0, []]);
    },
  );
});
