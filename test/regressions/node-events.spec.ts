import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../lib/core/events.ts';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';
import { eventually } from '../support/eventually.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import type { Cluster, LockProcess } from '../unit/core/support/cluster.ts';
import { eventsOf } from './support.ts';

const newCluster = clusterFactory();
const OOM = { error: "OOM command not allowed when used memory > 'maxmemory'." };
const ALWAYS = Number.POSITIVE_INFINITY;

/** Takes so many locks on free keys, one after the other. */
async function takeLocks(cluster: Cluster, { redlock }: LockProcess, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    const lock = await cluster.settle(redlock.acquire(`key${index}`));
    await cluster.settle(lock.release());
    await cluster.advance(100);
  }
}

/** Events of the last node, in order. */
function storyOf(events: readonly LockEvent[]): string[] {
  return events
    .filter((event) => 'address' in event && event.address === 'node2:6379')
    .map(({ type }) => type);
}

describe('a node that is connected', () => {
  it('is reported once as failing when it refuses every vote, and as joined when it votes again', async () => {
    const cluster = await newCluster();
    const process = await cluster.process();
    await takeLocks(cluster, process, 5);
    process.nodes[2]!.failNext(OOM, { command: 'acquire', times: ALWAYS });
    await takeLocks(cluster, process, 200);
    expect(storyOf(process.events)).toEqual(['node-joined', 'node-failing']);
    expect(eventsOf(process.events, 'node-failing')).toEqual([
      { type: 'node-failing', address: 'node2:6379', reason: expect.any(String) },
    ]);
    process.nodes[2]!.clearFaults();
    await takeLocks(cluster, process, 10);
    expect(storyOf(process.events)).toEqual(['node-joined', 'node-failing', 'node-joined']);
  });

  it.each([1, 2])(
    'is reported once as failing when it grants nothing while held locks are extended (%i of 3)',
    async (count) => {
      const cluster = await newCluster();
      const process = await cluster.process();
      for (let index = 0; index < 5; index += 1) {
        await cluster.settle(process.redlock.acquire(`held${index}`));
        await cluster.advance(200);
      }
      for (const node of process.nodes.slice(-count))
        node.failNext(OOM, { command: 'acquire', times: ALWAYS });
      for (let index = 0; index < 100; index += 1) {
        const lock = await cluster.settle(
          process.redlock.acquire(`key${index}`, { wait: 0 }).catch(() => undefined),
        );
        await cluster.settle(Promise.resolve(lock?.release()));
        await cluster.advance(200);
      }
      expect(storyOf(process.events)).toEqual(['node-joined', 'node-failing']);
      for (const node of process.nodes) node.clearFaults();
      await takeLocks(cluster, process, 3);
      expect(storyOf(process.events)).toEqual(['node-joined', 'node-failing', 'node-joined']);
    },
  );

  it('is reported as failing when it is always too slow while the others answer', async () => {
    const cluster = await newCluster();
    const process = await cluster.process();
    process.nodes[2]!.latencyMs = 1_000;
    await takeLocks(cluster, process, 100);
    expect(storyOf(process.events)).toEqual(['node-joined', 'node-failing']);
    process.nodes[2]!.latencyMs = 2;
    await cluster.advance(3_000);
    await takeLocks(cluster, process, 10);
    expect(storyOf(process.events)).toEqual(['node-joined', 'node-failing', 'node-joined']);
  });

  it('is reported as failing when it is frozen together with a majority, and as joined afterwards', async () => {
    const cluster = await newCluster();
    const process = await cluster.process();
    for (const server of cluster.servers.slice(1)) server.freeze();
    const refused = cluster.failure(process.redlock.acquire('key', { wait: '5s' }));
    expect(await refused).toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    expect(storyOf(process.events)).toEqual(['node-joined', 'node-failing']);
    expect(eventsOf(process.events, 'node-failing')).toHaveLength(2);
    for (const server of cluster.servers) server.resume();
    await takeLocks(cluster, process, 3);
    expect(storyOf(process.events)).toEqual(['node-joined', 'node-failing', 'node-joined']);
  });

  it('is not reported as failing for answers that are no refusal of its own', async () => {
    const cluster = await newCluster();
    const process = await cluster.process();
    cluster.occupy('key0', [2], 600_000);
    for (let round = 0; round < 20; round += 1) await takeLocks(cluster, process, 1);
    expect(storyOf(process.events)).toEqual(['node-joined']);
  });
});

describe('a node that leaves', () => {
  it('is reported as failing when it stays away, with the reason, also when it was never there', async () => {
    const cluster = await RedisCluster.start(2);
    const [left, missing] = [cluster.servers[0]!, cluster.servers[1]!];
    const client = new Redis(left.url);
    const storyAt = ({ url }: { readonly url: string }) =>
      events.flatMap((event) =>
        'address' in event && url.endsWith(event.address)
          ? [[event.type, 'reason' in event ? event.reason : '']]
          : [],
      );
    await missing.kill();
    const { events } = await cluster.process();
    try {
      await client.config('SET', 'requirepass', 'secret');
      await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      const refused = ['node-failing', expect.stringContaining('ECONNREFUSED')];
      await eventually(() => expect(storyAt(missing)).toEqual([refused]));
      const joined = ['node-joined', ''];
      const locked = ['node-failing', expect.stringContaining('NOAUTH')];
      const story = [joined, ['node-left', ''], locked];
      await eventually(() => expect(storyAt(left)).toEqual(story));
      await client.config('SET', 'requirepass', '');
      await missing.restart();
      await eventually(() => expect(storyAt(left)).toEqual([...story, joined]));
      await eventually(() => expect(storyAt(missing)).toEqual([refused, joined]));
    } finally {
      client.disconnect();
      await cluster.stop();
    }
  });
});
