import { describe, expect, it } from '@jest/globals';
import { QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import { clusterFactory } from '../support/cluster.ts';

const newCluster = clusterFactory();

describe('joining', () => {
  it('is the first command on every connection, before any vote', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process();
    await cluster.settle(redlock.acquire('a'));
    nodes[0]?.disconnect();
    await cluster.advance(50);
    await cluster.settle(redlock.acquire('b'));
    expect(nodes[0]?.commands.map(({ name }) => name)).toEqual([
      'join',
      'acquire',
      'join',
      'acquire',
    ]);
  });

  it('is repeated every 50 ms while it fails, and the node counts as unreachable until then', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process({ open: false, latencyMs: 0 });
    nodes[0]?.failNext({ error: 'LOADING Redis is loading' }, { command: 'join', times: 3 });
    redlock.open();
    await cluster.advance(120);
    const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    expect((error as QuorumUnavailableError).causes).toMatchObject([
      { reason: 'unreachable', message: 'join failed: LOADING Redis is loading' },
    ]);
    expect(nodes[0]?.asked('acquire')).toEqual([]);
    await cluster.advance(40);
    expect(nodes[0]?.asked('join').map(({ atMs }) => atMs - 1_000)).toEqual([0, 50, 100, 150]);
    await cluster.settle(redlock.acquire('a', { wait: 0 }));
  });

  it('tells of another fence retention in use, and does not vote', async () => {
    const cluster = await newCluster(1);
    await cluster.process();
    const marker = cluster.servers[0]?.state.markers.get('lock:#marker');
    cluster.servers[0]?.state.markers.set('lock:#marker', { ...marker!, floorRetentionMs: 5 });
    const { redlock } = await cluster.process();
    const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect((error as QuorumUnavailableError).causes[0]?.message).toMatch(
      /fences for 5 ms, this one for 600000 ms: use one version/,
    );
  });

  it('happens again after UNJOINED, and the vote counts in the same round', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    for (const server of cluster.servers) server.flush();
    await cluster.settle(redlock.acquire('a', { wait: 0 }));
    expect(nodes.map((node) => node.commands.map(({ name }) => name).slice(1))).toEqual(
      nodes.map(() => ['acquire', 'join', 'acquire']),
    );
  });

  it('happens again after NOSCRIPT, once for many votes, and each is resent once', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process();
    cluster.servers[0]?.forgetScripts();
    await cluster.settle(
      Promise.all(['a', 'b', 'c'].map((key) => redlock.acquire(key, { wait: 0 }))),
    );
    expect(nodes[0]?.asked('join')).toHaveLength(2);
    expect(nodes[0]?.asked('acquire')).toHaveLength(6);
  });

  it('is waited for by the votes that found it out; a new one is refused until then', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process();
    cluster.servers[0]?.forgetScripts();
    const first = redlock.acquire('a', { wait: 0 });
    await cluster.advance(3);
    const error = await cluster.failure(redlock.acquire('b', { wait: 0 }));
    expect((error as QuorumUnavailableError).causes).toMatchObject([
      { reason: 'unreachable', message: 'has to be joined again' },
    ]);
    expect((await cluster.settle(first)).isHeld).toBe(true);
    expect(nodes[0]?.asked('acquire')).toHaveLength(2);
  });

  it('is not waited for a second time by one vote, also while its round goes on', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    for (const index of [1, 2]) cluster.servers[index]?.freeze();
    const server = cluster.servers[0]!;
    const join = server.join.bind(server);
    server.join = (request) => {
      const reply = join(request);
      server.forgetScripts();
      return reply;
    };
    server.forgetScripts();
    await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect(nodes[0]?.asked('acquire')).toHaveLength(2);
  });

  it('does not resend for ever to a server that forgets at once', async () => {
    const cluster = await newCluster(1);
    const { redlock, nodes } = await cluster.process();
    nodes[0]?.failNext({ error: 'NOSCRIPT' }, { command: 'acquire', times: 1 });
    const flushAfterJoin = cluster.servers[0]!;
    const join = flushAfterJoin.join.bind(flushAfterJoin);
    flushAfterJoin.join = (request) => {
      const reply = join(request);
      flushAfterJoin.forgetScripts();
      return reply;
    };
    flushAfterJoin.forgetScripts();
    const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    expect(nodes[0]?.asked('acquire').length).toBeLessThanOrEqual(2);
  });

  it('a vote that ended while the node was joined again is not sent after its release', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    cluster.servers[2]?.forgetScripts();
    nodes[0]!.latencyMs = nodes[1]!.latencyMs = 10;
    const acquired = redlock.acquire('a');
    // NOSCRIPT comes at once, and then the join takes longer than the whole lock is held.
    await cluster.advance(1.5);
    nodes[2]!.latencyMs = 100;
    const lock = await cluster.settle(acquired);
    expect(nodes[2]?.asked('join')).toHaveLength(2);
    await cluster.settle(lock.release());
    await cluster.advance(500);
    expect(cluster.owners('a')).toEqual([undefined, undefined, undefined]);
  });

  it('an extension that ended while the node was joined again is not sent after the release', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(100);
    cluster.servers[2]?.forgetScripts();
    nodes[0]!.latencyMs = nodes[1]!.latencyMs = 10;
    const extended = lock.extend();
    await cluster.advance(1.5);
    nodes[2]!.latencyMs = 100;
    await cluster.settle(extended);
    await cluster.settle(lock.release());
    await cluster.advance(500);
    expect(cluster.owners('a')).toEqual([undefined, undefined, undefined]);
  });
});

describe('a node that does not answer', () => {
  it('is no longer waited for once an answer is overdue, but is still asked', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    cluster.servers[2]?.freeze();
    cluster.occupy('held', [0, 1], 60_000);
    await cluster.failure(redlock.acquire('held', { wait: 0 }));
    await cluster.advance(400);
    // Two accept at once, so this decides without it either way; a split vote would have to wait.
    cluster.occupy('split', [0], 60_000);
    const startedAtMs = cluster.nowMs;
    await cluster.failure(redlock.acquire('split', { wait: 0 }));
    expect(cluster.nowMs - startedAtMs).toBe(2);
    expect(nodes[2]?.asked('acquire')).toHaveLength(2);
  });

  it('counts again with its first answer', async () => {
    const cluster = await newCluster(3);
    const { redlock } = await cluster.process();
    cluster.servers[2]?.freeze();
    await cluster.settle((await cluster.settle(redlock.acquire('a'))).release());
    await cluster.advance(400);
    cluster.servers[2]?.resume();
    await cluster.advance(10);
    cluster.occupy('split', [0], 60_000);
    await cluster.settle(redlock.acquire('split', { wait: 0 }));
    expect(cluster.holders('split')).toBe(3);
  });

  it('gets releases only, above 64 open requests', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    cluster.servers[2]?.freeze();
    const keys = Array.from({ length: 64 }, (_, index) => `key${index}`);
    const locks = await cluster.settle(Promise.all(keys.map((key) => redlock.acquire(key))));
    await cluster.advance(301);
    locks.push(
      ...(await cluster.settle(Promise.all([redlock.acquire('x'), redlock.acquire('y')]))),
    );
    expect(nodes[2]?.asked('acquire')).toHaveLength(64);
    cluster.servers[0]?.kill();
    await cluster.advance(5);
    const error = await cluster.failure(redlock.acquire('more', { wait: 0 }));
    expect((error as QuorumUnavailableError).causes[2]).toMatchObject({
      reason: 'overloaded',
      message: '64 earlier requests are unanswered',
    });
    cluster.servers[0]?.restart({ keepData: true });
    await cluster.settle(Promise.all(locks.map((lock) => lock.release())));
    expect(nodes[2]?.asked('release')).toHaveLength(64);
    cluster.servers[2]?.resume();
    await cluster.advance(1_000);
    expect(keys.map((key) => cluster.holders(key)).filter((count) => count > 0)).toEqual([]);
  });

  it('a burst of many locks at once does not overload nodes that answer', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    const keys = Array.from({ length: 500 }, (_, index) => `key${index}`);
    const locks = await cluster.settle(
      Promise.all(keys.map((key) => redlock.acquire(key, { wait: 0 }))),
    );
    expect(locks.filter((lock) => lock.isHeld)).toHaveLength(500);
    expect(nodes[0]?.asked('acquire')).toHaveLength(500);
  });

  it('gets a new connection after it has been silent for long, but not for a pause of ours', async () => {
    const cluster = await newCluster(3);
    const { redlock, nodes } = await cluster.process();
    nodes[2]?.freeze();
    const tryOnce = async () => {
      const lock = await cluster.settle(redlock.acquire('a'));
      await cluster.settle(lock.release());
    };
    await tryOnce();
    await cluster.advance(6_000);
    // As after a pause of our own process: the answers would be there, so the first finding is not believed.
    await tryOnce();
    expect(nodes[2]?.resets).toBe(0);
    await cluster.advance(400);
    await tryOnce();
    expect(nodes[2]?.resets).toBe(1);
    nodes[2]?.resume();
    await cluster.advance(100);
    await tryOnce();
    expect(nodes[2]?.asked('join')).toHaveLength(2);
  });
});
