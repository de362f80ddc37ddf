import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import type { TokenRequest } from '../../lib/core/fencing-token.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { outcomesOf, sleepIn } from './support.ts';

const newCluster = clusterFactory();

describe('a lock that was granted and not yet handed over', () => {
  it.each([0, 5_000])('is refused as closed when drain(%i) comes meanwhile', async (drainMs) => {
    const cluster = await newCluster();
    const issued: TokenRequest[] = [];
    const issue = async (request: TokenRequest) => {
      issued.push(request);
      await sleepIn(cluster, 1_000);
      return issued.length;
    };
    const { redlock } = await cluster.process({ tokens: { issue } });
    const calls = [redlock.acquire('a'), redlock.tryAcquire('b'), redlock.withLock('c', () => 1)];
    await cluster.advance(100);
    expect(issued.length).toBe(3);
    const drained = redlock.drain(drainMs);
    const outcomes = await outcomesOf(cluster, calls);
    await cluster.settle(drained);
    expect(outcomes.map(({ code }) => code)).toEqual(calls.map(() => 'REDLOCK_CLOSED'));
    expect(Math.max(...outcomes.map(({ tookMs }) => tookMs))).toBeLessThan(50);
    await cluster.advance(50);
    expect(['a', 'b', 'c'].map((key) => cluster.holders(key))).toEqual([0, 0, 0]);
  });
});

describe('a signal that many acquires share', () => {
  it('has one listener, of which Node does not warn, and ends them all; none is left afterwards', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const controller = new AbortController();
    const { signal } = controller;
    const listeners = () => getEventListeners(signal, 'abort').length;
    const held = await cluster.settle(redlock.acquire('a', { signal }));
    expect(listeners()).toBe(0);
    const calls = Array.from({ length: 50 }, () => redlock.acquire('a', { wait: 60_000, signal }));
    await cluster.advance(10);
    expect(listeners()).toBe(1);
    const left = redlock.acquire('a', { wait: 500, signal });
    expect((await outcomesOf(cluster, [left]))[0]!.code).toBe('LOCK_BUSY');
    expect(listeners()).toBe(1);
    const other = new AbortController();
    const inTime = [1, 2].map(() => redlock.acquire('a', { wait: 10, signal: other.signal }));
    await outcomesOf(cluster, inTime);
    expect(getEventListeners(other.signal, 'abort')).toEqual([]);
    controller.abort('over');
    const outcomes = await outcomesOf(cluster, calls);
    expect(new Set(outcomes.map(({ error }) => error))).toEqual(new Set(['over']));
    expect(listeners()).toBe(0);
    await cluster.settle(held.release());
  });
});
