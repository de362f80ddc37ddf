import { beforeEach, describe, expect, it } from '@jest/globals';
import { ReleaseOutbox } from '../../../../lib/core/nodes/release-outbox.ts';
import { ManualEnvironment } from '../../../support/manual-environment.ts';
import { processFactory, rejection } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';
import { ScriptedNode } from '../support/scripted-node.ts';

const names = { locks: [], pairs: [], withMarker: [] };
const release = (holder: string) => ({ names, holder, granted: true, notify: true });
const RELEASED = { kind: 'released', deleted: 1 };
const REFUSED = { kind: 'failed', nothingWritten: true, reason: 'error', message: 'BUSY' } as const;

describe('the outbox of one node', () => {
  let environment: ManualEnvironment;
  let node: ScriptedNode;
  let outbox: ReleaseOutbox;
  /** How often it gave releases to the node by itself. */
  let sent: number;
  let settled: unknown[];

  beforeEach(() => {
    environment = new ManualEnvironment();
    node = new ScriptedNode('node:1');
    [sent, settled] = [0, []];
    outbox = new ReleaseOutbox(node, environment, 300, () => void (sent += 1));
  });

  const send = (holder: string, lifeMs = 3_000) =>
    outbox.send(release(holder), lifeMs, (...given) => void settled.push(given));
  /** Who was released and not answered, oldest first. */
  const open = () => node.waiting.map(({ request }) => (request as { holder: string }).holder);

  it('is done with a release that was answered, however little it deleted', async () => {
    send('a');
    node.answer('release', { kind: 'released', deleted: 0, listeners: 2 });
    await environment.advance(10_000);
    expect([settled, node.story, sent]).toEqual([[[undefined, 2]], ['release'], 0]);
  });

  it('repeats one that failed after every pause, until it is answered', async () => {
    send('a');
    node.answer('release', REFUSED);
    expect([settled, open()]).toEqual([[[REFUSED, 0]], []]);
    for (const answer of [REFUSED, REFUSED, RELEASED]) {
      await environment.advance(300);
      expect(open()).toEqual(['a']);
      node.answer('release', answer);
    }
    await environment.advance(10_000);
    expect([open(), sent, environment.pendingTimers]).toEqual([[], 3, 0]);
  });

  it('repeats what it keeps as soon as there is a new connection, and nothing that has expired', async () => {
    outbox.add(release('short'), 100);
    for (const holder of ['a', 'b', 'a']) outbox.add(release(holder), 3_000);
    outbox.add(release('over'), 0);
    await environment.advance(100);
    outbox.flush();
    expect([open(), sent]).toEqual([['a', 'b'], 1]);
    for (const _ of [1, 2]) node.answer('release', REFUSED);
    await environment.advance(2_800);
    while (open().length > 0) node.answer('release', REFUSED);
    await environment.advance(10_000);
    expect([open(), environment.pendingTimers]).toEqual([[], 0]);
  });

  it('keeps a bounded number, the latest', () => {
    for (let number = 0; number < 10_003; number += 1) outbox.add(release(`${number}`), 60_000);
    outbox.flush();
    expect([open().length, open()[0], open().at(-1)]).toEqual([10_000, '3', '10002']);
  });

  it('sends everything twice after a connection closed with answers open, as long as these can matter', async () => {
    const times = async (holder: string) => {
      send(holder);
      node.answer('release', RELEASED);
      await environment.advance(300);
      const repeats = open();
      for (const _ of repeats) node.answer('release', RELEASED);
      return repeats;
    };
    outbox.connectionClosed(0);
    expect(await times('a')).toEqual([]);
    outbox.connectionClosed(1_000);
    expect(await times('b')).toEqual(['b']);
    // Another one that closes, with nothing open, changes nothing.
    outbox.connectionClosed(0);
    expect([await times('c'), sent]).toEqual([['c'], 2]);
    await environment.advance(400);
    expect(await times('d')).toEqual([]);
    outbox.connectionClosed(400);
    send('e');
    for (const answer of [RELEASED, REFUSED, REFUSED, RELEASED]) {
      node.answer('release', answer);
      await environment.advance(300);
    }
    expect([open(), environment.pendingTimers]).toEqual([[], 0]);
  });

  it('forgets everything when it is closed, and keeps nothing any more', async () => {
    outbox.connectionClosed(10_000);
    send('again');
    node.answer('release', RELEASED);
    outbox.add(release('kept'), 3_000);
    send('late');
    send('late again');
    outbox.close();
    node.answer('release', REFUSED);
    node.answer('release', RELEASED);
    await environment.advance(10_000);
    expect([open(), environment.pendingTimers]).toEqual([[], 0]);
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

  /** An acquire gets stuck on its way, and its connection ends; call the result to let it arrive. */
  async function strandAcquire(cluster: Cluster, { redlock, nodes }: LockProcess) {
    const [node] = nodes;
    const known = node!.asked('acquire').length;
    node!.failNext('lose-request', { command: 'acquire' });
    const lost = rejection(redlock.acquire('lost', { wait: 0 }));
    await cluster.advance(10);
    node!.disconnect();
    await cluster.settle(lost);
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
