import { describe, expect, it } from '@jest/globals';
import { processFactory } from './support/cluster.ts';

const newProcess = processFactory();

/** A process over three nodes, which has asked them for one lock already. */
async function used(options: Parameters<typeof newProcess>[0] = {}) {
  const process = await newProcess(options);
  const { cluster, redlock } = process;
  await cluster.advance(10_000);
  const lock = await cluster.settle(redlock.acquire('first'));
  await cluster.settle(lock.release());
  const states = () => redlock.status().nodes.map(({ state }) => state);
  const use = async (key: string) => {
    await redlock.tryAcquire(key).then(
      (taken) => taken?.release(),
      () => undefined,
    );
  };
  return Object.assign(process, { states, use });
}

describe('status()', () => {
  it('is ready with every node voting, since when, and how long its latest vote took', async () => {
    const { redlock } = await used();
    const node = { state: 'voting', roundTripMs: 2 };
    expect(redlock.status()).toMatchObject({
      ready: true,
      degraded: false,
      votesMissing: 0,
      nodes: [0, 1, 2].map((index) => ({ ...node, address: `node${index}:6379` })),
      held: 0,
      waiting: 0,
    });
    for (const each of redlock.status().nodes) {
      expect(each).not.toHaveProperty('reason');
      expect(Math.abs(each.sinceMs - 10_000)).toBeLessThan(50);
    }
  });

  it('is degraded while a node is down, and not ready without a quorum, as ready(0) says', async () => {
    const { cluster, redlock, states } = await used();
    cluster.servers[0]!.kill();
    await cluster.advance(5_000);
    const { nodes, ...one } = redlock.status();
    expect(one).toMatchObject({ ready: true, degraded: true, votesMissing: 0 });
    expect(nodes[0]).toMatchObject({ state: 'down', reason: expect.any(String) });
    expect(Math.abs(nodes[0]!.sinceMs - 5_000)).toBeLessThan(50);
    cluster.servers[1]!.kill();
    await cluster.advance(10);
    const two = redlock.status();
    expect(states()).toEqual(['down', 'down', 'voting']);
    expect(two).toMatchObject({ ready: false, degraded: false, votesMissing: 1 });
    expect(two.ready).toBe(await cluster.settle(redlock.ready(0)));
  });

  it('tells a node that may not vote yet from one that votes, with the time that is left', async () => {
    const { cluster, redlock, states } = await used({ restartGuard: true });
    cluster.servers[2]!.restart({ keepData: false });
    await cluster.advance(1_000);
    expect(states()).toEqual(['voting', 'voting', 'quarantined']);
    expect(redlock.status().nodes[2]!.reason).toMatch(/gives no locks for 2\.\d s more/);
    expect(redlock.status()).toMatchObject({ ready: true, degraded: true });
    await cluster.advance(3_000);
    expect(states()[2]).toBe('voting');
    expect(redlock.status().nodes[2]!.sinceMs).toBeLessThan(2_000);
  });

  it('tells a node that is silent, since it was asked, from one that answers with errors', async () => {
    const { cluster, redlock, nodes, states, use } = await used();
    cluster.servers[0]!.freeze();
    nodes[1]!.failNext({ error: 'OOM command not allowed' }, { command: 'acquire', times: 1_000 });
    void use('a');
    await cluster.advance(1_000);
    expect(states()[0]).toBe('silent');
    expect(Math.abs(redlock.status().nodes[0]!.sinceMs - 1_000)).toBeLessThan(20);
    for (const key of ['b', 'c', 'd']) {
      void use(key);
      await cluster.advance(3_000);
    }
    expect(states()).toEqual(['silent', 'refusing', 'voting']);
    expect(redlock.status().nodes[1]!.reason).toContain('OOM');
    expect(redlock.status()).toMatchObject({
      ready: await cluster.settle(redlock.ready(0)),
      votesMissing: 1,
    });
    cluster.servers[0]!.resume();
  });
});

describe('held()', () => {
  it('shows what this process holds and waits for, the longest first', async () => {
    const { cluster, redlock } = await newProcess();
    const old = await cluster.settle(redlock.acquire(['b', 'a']));
    await cluster.advance(20_000);
    const young = await cluster.settle(redlock.acquire('c'));
    const waiter = redlock.acquire('a', { wait: '1m' });
    await cluster.advance(1_000);
    const { held, waiting } = redlock.held();
    const of = ({ token: { value, holder } }: typeof old) => ({
      token: value,
      holder,
      sections: 1,
    });
    expect(held).toMatchObject([
      { keys: ['a', 'b'], ...of(old) },
      { keys: ['c'], ...of(young) },
    ]);
    expect(held.map(({ heldMs }) => Math.round(heldMs / 1_000))).toEqual([21, 1]);
    for (const { remainingMs } of held) expect(Math.abs(remainingMs - 2_500)).toBeLessThan(500);
    expect(waiting).toEqual([{ keys: ['a'], waitedMs: 1_000 }]);
    expect(redlock.status()).toMatchObject({ held: 2, waiting: 1 });
    await cluster.settle(old.release());
    await cluster.settle(waiter.then((lock) => lock.release()));
    await cluster.settle(young.release());
    expect(redlock.held()).toEqual({ held: [], waiting: [] });
  });

  it('counts the sections of a lock, and shows one without any that only minHold keeps', async () => {
    const { cluster, redlock } = await newProcess();
    const shown = () => redlock.held().held.map(({ sections }) => sections);
    const work = redlock.withLock('a', () => redlock.withLock('a', shown, { nested: 'join' }), {
      minHold: '2s',
    });
    expect(await cluster.settle(work)).toEqual([2]);
    expect(shown()).toEqual([0]);
    await cluster.advance(2_000);
    expect(shown()).toEqual([]);
  });

  it('shows a call that waits for its token as waiting, not as holding', async () => {
    let issue = (_value: number): void => undefined;
    const tokens = { issue: () => new Promise<number>((resolve) => (issue = resolve)) };
    const { cluster, redlock } = await newProcess({ tokens });
    const lock = redlock.acquire('a');
    await cluster.advance(500);
    expect(redlock.held()).toEqual({ held: [], waiting: [{ keys: ['a'], waitedMs: 500 }] });
    issue(7);
    const { token } = await cluster.settle(lock);
    expect(redlock.held().held).toMatchObject([{ token: token.value }]);
  });
});
