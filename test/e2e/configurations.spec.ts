import { expect, it } from '@jest/globals';
import type { LockEvent } from '../../lib/core/events.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

const servers = useRedisServers(5);
const openRedlock = useRedlocks();

/** A process over these servers; resolves to what it says of other configurations once all its nodes have joined. */
async function process(indices: readonly number[], keyPrefix: string, quorum?: number) {
  const events: LockEvent[] = [];
  const nodes = redisNodes(indices.map((index) => servers[index]!));
  const onEvent = (event: LockEvent) => void events.push(event);
  await openRedlock(nodes, { keyPrefix, onEvent, ...(quorum !== undefined && { quorum }) });
  const of = (type: LockEvent['type']) => events.filter((event) => event.type === type);
  await eventually(() => expect(of('node-joined')).toHaveLength(indices.length));
  return of('configurations-differ');
}

const names = (indices: readonly number[]): string[] =>
  indices.map((index) => servers[index]!.url.replace('redis://', '')).sort();

it('a process whose quorums may miss those of another one on the same servers reports both configurations, once', async () => {
  expect(await process([0, 1, 2], 'differ:')).toEqual([]);
  const [own, other] = [
    [2, 3, 4],
    [0, 1, 2],
  ].map((nodes) => ({ nodes: names(nodes), quorum: 2 }));
  expect(await process([2, 3, 4], 'differ:')).toMatchObject([{ own, other }]);
});

it('a change of the nodes, step by step, is reported at none of its steps', async () => {
  expect(await process([0, 1, 2], 'change:')).toEqual([]);
  expect(await process([0, 1, 2, 3, 4], 'change:', 4)).toEqual([]);
  expect(await process([0, 1, 2, 3, 4], 'change:', 3)).toEqual([]);
});
