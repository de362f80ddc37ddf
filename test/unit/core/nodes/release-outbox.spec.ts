import { beforeEach, describe, expect, it } from '@jest/globals';
import { ReleaseOutbox } from '../../../../lib/core/nodes/release-outbox.ts';
import { processFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';
import { scriptedSet } from '../support/scripted-node.ts';

const RELEASED = { kind: 'released', deleted: 1 } as const;
const REFUSED = { kind: 'failed', nothingWritten: true, reason: 'error', message: 'BUSY' } as const;

describe('the outbox of one node', () => {
  let world: ReturnType<typeof scriptedSet>;
  let outbox: ReleaseOutbox;

  beforeEach(() => {
    world = scriptedSet();
    outbox = new ReleaseOutbox(world.node, world.set);
  });

  const release = (holder: string) => ({
    names: { marker: '', locks: [], pairs: [], queues: [] },
    holder,
    granted: true,
    pass: true,
  });
  const expiresIn = (ms: number) => world.set.nowMs + ms;
  const keep = (holder: string, lifeMs = 3_000) => outbox.keep(release(holder), expiresIn(lifeMs));
  const answered = (holder: string, reply: typeof RELEASED | typeof REFUSED) =>
    outbox.answered(release(holder), expiresIn(3_000), reply);
  const advance = (ms: number) => world.environment.advance(ms);
  /** Releases without an answer, oldest first. */
  const open = () =>
    world.node.waiting.map(({ request }) => (request as { holder: string }).holder);
  const answer = (reply: object) => world.node.answer('release', reply);

  it('repeats a release that failed after every pause, until it is answered, and sees to its flush', async () => {
    answered('a', REFUSED);
    for (const reply of [REFUSED, REFUSED, RELEASED]) {
      await advance(299);
      expect(open()).toEqual([]);
      await advance(1);
      expect([open(), world.node.story.at(-1)]).toEqual([['a'], 'flush']);
      answer(reply);
    }
    answered('b', RELEASED);
    await advance(10_000);
    expect([open(), world.environment.pendingTimers]).toEqual([[], 0]);
  });

  it('sends what it keeps when there is a new connection, once each, and nothing that has expired', async () => {
    keep('short', 100);
    for (const holder of ['a', 'b', 'a']) keep(holder);
    keep('over', 0);
    await advance(100);
    outbox.flush();
    await advance(0);
    expect([open(), world.node.story.at(-1)]).toEqual([['a', 'b'], 'flush']);
    for (const _ of [1, 2]) answer(REFUSED);
    await advance(2_800);
    while (open().length > 0) answer(REFUSED);
    await advance(10_000);
    expect([open(), world.environment.pendingTimers]).toEqual([[], 0]);
  });

  it('keeps a bounded number, the latest', () => {
    for (let number = 0; number < 10_003; number += 1) keep(`${number}`, 60_000);
    outbox.flush();
    expect([open().length, open()[0], open().at(-1)]).toEqual([10_000, '3', '10002']);
  });

  it('sends everything twice after a connection closed with answers open, as long as these can matter', async () => {
    const repeatsOf = async (holder: string) => {
      answered(holder, RELEASED);
      await advance(300);
      const repeats = open();
      for (const _ of repeats) answer(RELEASED);
      return repeats;
    };
    outbox.connectionClosed(0);
    expect(await repeatsOf('a')).toEqual([]);
    outbox.connectionClosed(1_000);
    expect(await repeatsOf('b')).toEqual(['b']);
    // Another one that closes, with nothing open, changes nothing.
    outbox.connectionClosed(0);
    expect([await repeatsOf('c'), world.node.story.at(-1)]).toEqual([['c'], 'flush']);
    await advance(400);
    expect(await repeatsOf('d')).toEqual([]);
    outbox.connectionClosed(400);
    answered('e', RELEASED);
    for (const reply of [REFUSED, REFUSED, RELEASED]) {
      await advance(300);
      answer(reply);
    }
    await advance(10_000);
    expect([open(), world.environment.pendingTimers]).toEqual([[], 0]);
  });

  it('forgets everything when it is closed, and keeps nothing any more', async () => {
    outbox.connectionClosed(10_000);
    answered('again', RELEASED);
    keep('kept');
    outbox.close();
    answered('late', REFUSED);
    answered('late again', RELEASED);
    await advance(10_000);
    expect([open(), world.environment.pendingTimers]).toEqual([[], 0]);
  });
});

describe('a release to a node of a cluster', () => {
  const newProcess = processFactory();

  /** Acquires and releases, lets repeats come, and says how often the node received the release. */
  async function releasesOfOneLock(cluster: Cluster, { redlock, nodes }: LockProcess) {
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.settle(lock.release());
    await cluster.advance(700);
    const releases = nodes[0]!.asked('release');
    return releases.filter(({ request }) => request.holder === lock.token.holder).length;
  }

  /** An acquire gets stuck on its way, and its connection ends for a while; call the result to let it arrive. */
  async function strandAcquire(cluster: Cluster, { redlock, nodes }: LockProcess) {
    const [node] = nodes;
    const [server] = cluster.servers;
    const known = node!.asked('acquire').length;
    node!.failNext('lose-request', { command: 'acquire' });
    const lost = rejection(redlock.acquire('lost', { wait: 0 }));
    await cluster.advance(10);
    server!.kill();
    await cluster.settle(lost);
    server!.restart({ keepData: true });
    await cluster.advance(50);
    return () => void node!.server.acquire(node!.asked('acquire')[known]!.request);
  }

  it('goes over the next connection when this one closed, without an answer or before it was sent', async () => {
    const { cluster, redlock, node } = await newProcess({}, 1);
    for (const whenSent of [true, false]) {
      const lock = await cluster.settle(redlock.acquire('a'));
      if (whenSent) node.failNext('lose-request', { command: 'release' });
      else node.disconnect();
      const released = lock.release();
      await cluster.advance(1);
      if (whenSent) node.disconnect();
      await cluster.settle(released);
      expect(cluster.holders('a')).toBe(1);
      await cluster.advance(50);
      expect(cluster.holders('a')).toBe(0);
    }
  });

  it('leaves no orphan of an acquire that arrives after it, on another connection', async () => {
    const process = await newProcess({ ttl: 30_000, nodeTimeout: 300 }, 1);
    const { cluster } = process;
    const arrive = await strandAcquire(cluster, process);
    arrive();
    expect(cluster.holders('lost')).toBe(1);
    await cluster.advance(300);
    expect(cluster.holders('lost')).toBe(0);
  });

  it('is sent once where every command was answered, also with a refusal, and else twice for a ttl', async () => {
    const process = await newProcess({}, 1);
    const { cluster, redlock, node } = process;
    node.failNext({ error: 'OOM command not allowed' }, { command: 'acquire' });
    await cluster.failure(redlock.acquire('refused', { wait: 0 }));
    node.disconnect();
    await cluster.advance(50);
    expect(await releasesOfOneLock(cluster, process)).toBe(1);
    await strandAcquire(cluster, process);
    expect(await releasesOfOneLock(cluster, process)).toBe(2);
    await cluster.advance(3_000);
    expect(await releasesOfOneLock(cluster, process)).toBe(1);
  });
});
