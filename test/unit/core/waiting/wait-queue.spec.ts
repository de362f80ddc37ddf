import { describe, expect, it } from '@jest/globals';
import { WaitQueue } from '../../../../lib/core/waiting/wait-queue.ts';
import type { Turn } from '../../../../lib/core/waiting/wait-queue.ts';

/** Enters, and writes `name` down when its turn comes. */
function enter(queue: WaitQueue, order: string[], name: string, keys: readonly string[]): Turn {
  const turn = queue.enter(keys);
  if (turn.isFirst) order.push(name);
  else turn.whenFirst(() => order.push(name));
  return turn;
}

describe('WaitQueue', () => {
  it('is first come, first served, one at a time', () => {
    const queue = new WaitQueue();
    const order: string[] = [];
    const turns = ['1', '2', '3'].map((name) => enter(queue, order, name, ['a']));
    expect(order).toEqual(['1']);
    turns[0]?.leave();
    expect(order).toEqual(['1', '2']);
    turns[1]?.leave();
    expect(order).toEqual(['1', '2', '3']);
  });

  it('lets different keys pass each other', () => {
    const queue = new WaitQueue();
    expect(queue.enter(['a']).isFirst).toBe(true);
    expect(queue.enter(['b']).isFirst).toBe(true);
  });

  it('who leaves the middle of the line wakes nobody and is not waited for', () => {
    const queue = new WaitQueue();
    const order: string[] = [];
    const [first, second] = ['1', '2', '3'].map((name) => enter(queue, order, name, ['a']));
    second?.leave();
    expect(order).toEqual(['1']);
    first?.leave();
    expect(order).toEqual(['1', '3']);
  });

  it('a set is first only when it is first in every line', () => {
    const queue = new WaitQueue();
    const order: string[] = [];
    const a = enter(queue, order, 'a', ['a']);
    const b = enter(queue, order, 'b', ['b']);
    enter(queue, order, 'ab', ['a', 'b']);
    a.leave();
    expect(order).toEqual(['a', 'b']);
    b.leave();
    expect(order).toEqual(['a', 'b', 'ab']);
  });

  it('sets that overlap in a ring never wait for each other', () => {
    const queue = new WaitQueue();
    const order: string[] = [];
    const turns = new Map<string, Turn>();
    for (const keys of [['a', 'b'], ['b', 'c'], ['a', 'c'], ['a'], ['c'], ['b']]) {
      turns.set(keys.join(''), enter(queue, order, keys.join(''), keys));
    }
    for (let served = 0; served < order.length; served += 1)
      turns.get(order[served] ?? '')?.leave();
    expect([...order].sort()).toEqual(['a', 'ab', 'ac', 'b', 'bc', 'c']);
    expect(order.indexOf('ac')).toBeLessThan(order.indexOf('a'));
    expect(order.indexOf('bc')).toBeLessThan(order.indexOf('b'));
  });

  it('knows who stands ahead, for its last failure', () => {
    const queue = new WaitQueue();
    const first = queue.enter(['b']);
    const second = queue.enter(['a', 'b']);
    expect(second.ahead).toBe(first);
    expect(first.ahead).toBeUndefined();
  });

  it('leaving twice changes nothing', () => {
    const queue = new WaitQueue();
    const order: string[] = [];
    const [first] = ['1', '2', '3'].map((name) => enter(queue, order, name, ['a']));
    first?.leave();
    first?.leave();
    expect(order).toEqual(['1', '2']);
  });

  it('tells of the turn once', () => {
    const queue = new WaitQueue();
    const order: string[] = [];
    const first = queue.enter(['a', 'b']);
    const second = enter(queue, order, '2', ['a', 'b']);
    first.leave();
    second.wake();
    expect(order).toEqual(['2']);
  });
});
