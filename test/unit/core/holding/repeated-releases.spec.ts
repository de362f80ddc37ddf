import { describe, expect, it } from '@jest/globals';
import { systemEnvironment } from '../../../../lib/core/system-environment.ts';
import type { LockNode, ReleaseRequest } from '../../../../lib/core/nodes/lock-node.ts';
import { ReleaseOutbox } from '../../../../lib/core/nodes/release-outbox.ts';
import { clusterFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();

/** Acquires and releases, lets repeats come, and tells how often the first node heard of the release. */
async function releasesOfOneLock(cluster: Cluster, { redlock, nodes }: LockProcess) {
  const lock = await cluster.settle(redlock.acquire('a'));
  await cluster.settle(lock.release());
  await cluster.advance(700);
  const releases = nodes[0]!.asked('release');
  return releases.filter(({ request }) => request.holder === lock.token.holder).length;
}

/** A connection ends while an acquire is on its way; nobody knows what became of it. */
async function loseAnAcquire(cluster: Cluster, { redlock, nodes }: LockProcess): Promise<void> {
  nodes[0]!.freeze();
  const lost = rejection(redlock.acquire('lost', { wait: 0 }));
  await cluster.advance(10);
  nodes[0]!.reset();
  await cluster.settle(lost);
  nodes[0]!.resume();
  await cluster.advance(50);
}

describe('a release after a connection has ended', () => {
  it('is sent once where every command on it was answered, also with a refusal', async () => {
    const cluster = await newCluster(1);
    const process = await cluster.process({ ttl: 3_000 });
    expect(await releasesOfOneLock(cluster, process)).toBe(1);
    process.nodes[0]!.failNext({ error: 'OOM command not allowed' }, { command: 'acquire' });
    await cluster.failure(process.redlock.acquire('refused', { wait: 0 }));
    process.nodes[0]!.disconnect();
    await cluster.advance(50);
    expect(await releasesOfOneLock(cluster, process)).toBe(1);
  });

  it('is sent twice where an outcome is unknown, as long as that command can have left a key', async () => {
    const cluster = await newCluster(1);
    const process = await cluster.process({ ttl: 3_000 });
    await loseAnAcquire(cluster, process);
    expect(await releasesOfOneLock(cluster, process)).toBe(2);
    // Another connection that ends, with nothing open, doesn't change that.
    process.nodes[0]!.disconnect();
    await cluster.advance(50);
    expect(await releasesOfOneLock(cluster, process)).toBe(2);
    await cluster.advance(3_000);
    expect(await releasesOfOneLock(cluster, process)).toBe(1);
  });

  it('is repeated until it arrives, the second time too, and then nothing is left to do', async () => {
    const cluster = await newCluster(1);
    const process = await cluster.process({ ttl: 3_000 });
    const { redlock, nodes } = process;
    await loseAnAcquire(cluster, process);
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(lock.release());
    nodes[0]!.failNext({ error: 'BUSY running a script' }, { command: 'release', times: 2 });
    await cluster.advance(5_000);
    const releases = nodes[0]!.asked('release');
    const mine = releases.filter(({ request }) => request.holder === lock.token.holder);
    expect(mine.length).toBeGreaterThanOrEqual(4);
    expect(process.liveTimers).toBe(0);
  });

  it('has nothing to do with an answer that comes when another connection is up', async () => {
    const cluster = await newCluster(1);
    const process = await cluster.process({ ttl: 3_000 });
    const [node] = process.nodes;
    const acquire = node!.acquire.bind(node);
    // A node may settle its open commands as late as it likes.
    let settleLate = () => {};
    node!.acquire = (request, settle) =>
      acquire(request, (reply) => (settleLate = () => settle(reply)));
    await loseAnAcquire(cluster, process);
    node!.acquire = acquire;
    await cluster.advance(4_000);
    settleLate();
    node!.disconnect();
    await cluster.advance(50);
    expect(await releasesOfOneLock(cluster, process)).toBe(1);
  });
});

describe('releases that can not be delivered', () => {
  it('are kept up to a number, the latest ones', () => {
    const sent: string[] = [];
    const node: Pick<LockNode, 'release'> = {
      release: ({ holder }) => void sent.push(holder),
    };
    const outbox = new ReleaseOutbox(node as LockNode, systemEnvironment, 1_000);
    const names = { locks: [], pairs: [], withMarker: [] };
    const release = (holder: string): ReleaseRequest => ({
      names,
      holder,
      granted: true,
      notify: true,
    });
    for (let number = 0; number < 10_003; number += 1) outbox.add(release(`${number}`), 60_000);
    outbox.flush();
    expect([sent.length, sent[0], sent.at(-1)]).toEqual([10_000, '3', '10002']);
    outbox.close();
  });
});
