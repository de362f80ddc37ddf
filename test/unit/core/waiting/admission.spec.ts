import { describe, expect, it } from '@jest/globals';
import { Admission } from '../../../../lib/core/waiting/admission.ts';
import type { Candidate } from '../../../../lib/core/waiting/admission.ts';
import { processFactory } from '../support/cluster.ts';

/** Callers by their names; those in capitals are inside a section, and it is the turn of digits. `woken` lists whom the admission woke. */
function lobby(limit: number) {
  const admission = new Admission(limit);
  const woken: string[] = [];
  const callers = new Map<string, Candidate>();
  const caller = (name: string) => {
    const enclosing = /[A-Z]/.test(name) ? [] : undefined;
    const isCalled = name >= '0' && name <= '9';
    const wake = () => void woken.push(name);
    const known = callers.get(name) ?? { enclosing, isCalled, wake };
    callers.set(name, known);
    return known;
  };
  /** Which of these get a slot. */
  const enter = (names: string) =>
    names.replace(/./g, (name) => (admission.enter(caller(name)) ? name : ''));
  const withdraw = (name: string) => admission.withdraw(caller(name));
  return { woken, enter, withdraw, exit: () => admission.exit() };
}

describe('the admission', () => {
  it('gives so many slots, and each that is given back to the next in line, who may ask again', () => {
    const { enter, exit, woken } = lobby(2);
    expect(enter('abcdc')).toBe('ab');
    exit();
    expect([woken, enter('cd')]).toEqual([['c'], 'c']);
    exit();
    expect([woken, enter('d')]).toEqual([['c', 'd'], 'd']);
    exit();
    exit();
    expect(enter('efg')).toBe('ef');
  });

  it('keeps a slot that was offered from those who come meanwhile', () => {
    const { enter, exit, woken } = lobby(1);
    enter('ab');
    exit();
    expect([enter('c'), enter('b'), woken]).toEqual(['', 'b', ['b', 'b']]);
  });

  it('lets callers inside a section, and those whose turn it is, go first, in order', () => {
    const { enter, exit, woken } = lobby(1);
    enter('abC4');
    for (let turn = 0; turn < 3; turn += 1) {
      exit();
      enter(woken.at(-1)!);
    }
    expect(woken).toEqual(['C', '4', 'b']);
  });

  it('lets no one pass those in line, also when a slot is free for a moment', () => {
    const { enter, exit, withdraw, woken } = lobby(2);
    enter('abC');
    exit();
    withdraw('C');
    expect([enter('d'), enter('e'), woken]).toEqual(['d', '', ['C']]);
  });

  it('offers the slot to the next when one who was offered it does not want it any more', () => {
    const { enter, exit, withdraw, woken } = lobby(1);
    enter('abc');
    exit();
    withdraw('b');
    expect([woken, enter('c')]).toEqual([['b', 'c'], 'c']);
    exit();
    expect(enter('d')).toBe('d');
  });

  it.each(['b', 'B'])('forgets one who leaves the line: %s', (name) => {
    const { enter, exit, withdraw, woken } = lobby(1);
    enter(`a${name}c`);
    withdraw(name);
    exit();
    expect([woken, enter('c')]).toEqual([['c'], 'c']);
  });
});

describe('a process with as many tries under way as it may have', () => {
  const newProcess = processFactory();

  it('calls it an overload, never contention, when the time of a caller is over', async () => {
    const { cluster, redlock } = await newProcess({ concurrentTries: 1, ttl: '10s' });
    cluster.servers[1]!.freeze();
    cluster.servers[2]!.freeze();
    const first = cluster.failure(redlock.acquire('a', { wait: '1m' }));
    const error = await cluster.failure(redlock.acquire('b', { wait: 0 }));
    expect(error).toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
      causes: [{ address: 'this process', reason: 'overloaded', elapsedMs: 500 }],
    });
    expect((error as Error).message).toMatch(/1 tries .* \(option concurrentTries\)/);
    await cluster.settle(redlock.close());
    await first;
  });

  it('extends and releases all the same, and takes nested locks first', async () => {
    const { cluster, redlock, node } = await newProcess({ concurrentTries: 1, latencyMs: 20 });
    const order: string[] = [];
    const take = async (key: string) => {
      const lock = await redlock.acquire(key);
      order.push(key);
      await lock.release();
    };
    let begin!: () => void;
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const outer = redlock.withLock('outer', async (lock) => {
      await begun;
      const nested = take('nested');
      await lock.extend();
      await nested;
    });
    await cluster.advance(50);
    const others = ['b', 'c'].map(take);
    begin();
    await cluster.advance(15);
    expect([node.asked('acquire').length, node.asked('extend').length]).toEqual([2, 1]);
    await cluster.settle(Promise.all([outer, ...others]));
    expect(order).toEqual(['b', 'nested', 'c']);
  });
});
