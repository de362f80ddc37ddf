import { describe, expect, it } from '@jest/globals';
import type { LockBusyError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();
const sizes = [1, 2, 3, 4, 5, 6, 7];
const majority = (size: number) => Math.floor(size / 2) + 1;
const OOM = [{ error: 'OOM command not allowed' }, { command: 'acquire' }] as const;

type Process = Awaited<ReturnType<typeof newProcess>>;

/** How long one try for `key` takes, and what it ends with: a lock, or an error. */
async function tryOnce({ cluster, redlock }: Process, key = 'a') {
  const startedAtMs = cluster.nowMs;
  const outcome = redlock.acquire(key, { wait: 0 }).catch((error: unknown) => error);
  const result = (await cluster.settle(outcome)) as Lock & LockBusyError;
  return Object.assign(result, { tookMs: cluster.nowMs - startedAtMs });
}

describe.each(sizes)('with %i nodes', (size) => {
  it('any majority grants, and one node less is an outage that leaves nothing behind', async () => {
    const process = await newProcess({}, size);
    const { cluster } = process;
    for (const server of cluster.servers.slice(majority(size))) server.kill();
    await cluster.advance(5);
    expect((await tryOnce(process)).token.value).toBeGreaterThan(0);
    expect(cluster.holders('a')).toBe(majority(size));
    cluster.servers[0]?.kill();
    await cluster.advance(5);
    const error = await tryOnce(process, 'b');
    expect([error.code, error.causes.length]).toEqual(['QUORUM_UNAVAILABLE', size]);
    await cluster.advance(5);
    expect(cluster.holders('b')).toBe(0);
  });

  it('every division of the nodes between two holders excludes correctly', async () => {
    const process = await newProcess({}, size);
    const { cluster } = process;
    for (let mask = 0; mask < 2 ** size; mask += 1) {
      const key = `key${mask}`;
      const foreign = sizes.map((_, index) => index).filter((index) => (mask & (1 << index)) !== 0);
      cluster.occupy(key, foreign, 60_000);
      const { code, token } = await tryOnce(process, key);
      await cluster.advance(3);
      const free = size - foreign.length;
      const granted = free >= majority(size);
      const own = cluster.holdersOf(key).filter((holder) => holder === token?.holder).length;
      const expected = granted ? [undefined, free, size] : ['LOCK_BUSY', 0, foreign.length];
      const seen = [code, granted ? own : 0, cluster.holders(key)];
      expect([key, ...seen]).toEqual([key, ...expected]);
    }
  });

  it('a grant and a loss wait for the deciding vote only, not for slower nodes', async () => {
    const process = await newProcess({}, size);
    for (const [index, node] of process.nodes.entries()) node.latencyMs = 10 * (index + 1);
    expect((await tryOnce(process)).tookMs).toBe(10 * majority(size));
    process.cluster.occupy(
      'b',
      sizes.slice(0, size).map((node) => node - 1),
      60_000,
    );
    // Where the votes that decide name no holder by majority, one more try has to name the same.
    const { tookMs } = await tryOnce(process, 'b');
    const lossMs = 10 * (size - majority(size) + 1);
    expect(tookMs).toBeGreaterThanOrEqual(lossMs);
    expect(tookMs).toBeLessThanOrEqual(size % 2 === 1 ? lossMs : 200);
  });
});

describe('frozen nodes', () => {
  it.each([3, 4, 5, 7])('that are a minority of %i do not delay a grant', async (size) => {
    const frozen = size - majority(size);
    const process = await newProcess({}, size);
    const { cluster } = process;
    for (const server of cluster.servers.slice(0, frozen)) server.freeze();
    for (let round = 0; round < 3; round += 1) {
      const lock = await tryOnce(process);
      const heldAtMs = cluster.nowMs;
      await cluster.settle(lock.release());
      expect([lock.tookMs, cluster.nowMs - heldAtMs]).toEqual([2, 2]);
      await cluster.advance(400);
    }
  });

  it('that are a majority cost one node timeout, and are named', async () => {
    const process = await newProcess();
    const { cluster } = process;
    for (const index of [0, 1]) cluster.servers[index]?.freeze();
    const { tookMs, causes } = await tryOnce(process);
    const slow = { reason: 'timeout', elapsedMs: 300 };
    const named = [0, 1].map((index) => ({ ...slow, address: `node${index}:6379` }));
    expect([tookMs, causes]).toMatchObject([300, named]);
    for (const server of cluster.servers) server.resume();
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });

  it('cost one node timeout, also a try that begins just when the first one has ended', async () => {
    const process = await newProcess();
    await tryOnce(process, 'x');
    await process.cluster.advance(100.5);
    process.cluster.servers[1]?.freeze();
    for (const key of ['a', 'b']) process.cluster.occupy(key, [2], 60_000);
    expect((await tryOnce(process, 'a')).tookMs).toBe(300);
    expect((await tryOnce(process, 'b')).tookMs).toBeLessThan(60);
  });

  it('are silent once, however many rounds end at that moment: one silence is no failing node', async () => {
    const process = await newProcess();
    process.cluster.servers[1]?.freeze();
    const keys = ['a', 'b', 'c', 'd', 'e'];
    for (const key of keys) process.cluster.occupy(key, [2], 60_000);
    await process.cluster.settle(Promise.all(keys.map((key) => tryOnce(process, key))));
    expect(process.received('node-failing')).toEqual([]);
    process.cluster.servers[1]?.resume();
  });

  it('are not waited for once they are silent, nor slow ones that can no longer decide', async () => {
    const process = await newProcess({}, 5);
    const { cluster, nodes } = process;
    for (const index of [3, 4]) cluster.servers[index]!.freeze();
    await tryOnce(process);
    await cluster.advance(400);
    cluster.occupy('b', [0], 60_000);
    const busy = await tryOnce(process, 'b');
    // Two tries, because one node alone named the holder.
    expect([busy.code, busy.tookMs < 60]).toEqual(['LOCK_BUSY', true]);
    cluster.servers[3]!.resume();
    await cluster.advance(50);
    nodes[0]!.failNext(...OOM);
    cluster.occupy('c', [1], 60_000);
    for (const index of [2, 3]) nodes[index]!.latencyMs = 50;
    // The first try ends at once; the next one, with the vote of node 0, needs the slow ones.
    expect((await tryOnce(process, 'c')).tookMs).toBeLessThan(100);
  });
});

describe('the time that a round took', () => {
  it('is taken off the validity', async () => {
    // ttl - elapsed - (1 % + 2 ms)
    const lock = await tryOnce(await newProcess({ latencyMs: 100 }));
    expect(lock.remainingMs).toBeCloseTo(3_000 - 100 - 32, 6);
  });

  it('makes a grant none when nearly the whole ttl is over, and keeps what a node said', async () => {
    const process = await newProcess({ ttl: 1_000, nodeTimeout: 300 }, 5);
    const { cluster, nodes } = process;
    cluster.occupy('a', [2], 60_000);
    nodes[2]!.latencyMs = 1;
    cluster.servers[4]!.freeze();
    const failed = tryOnce(process);
    // The answers are there in time, but the process only runs again after 900 ms: as in a long pause.
    await cluster.advance(1.5);
    cluster.environment.skip(900);
    const paused = { address: 'this process', reason: 'timeout' };
    const error = await failed;
    expect(error).toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
      causes: [
        { ...paused, message: expect.stringMatching(/^did not run for 60\d ms/) },
        { reason: 'held' },
      ],
    });
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(1);
    expect(nodes[0]?.asked('release')).toMatchObject([{ request: { granted: false } }]);
  });

  it('is reported when it is long, at most once a minute', async () => {
    const { cluster, redlock, received } = await newProcess({ latencyMs: 400, nodeTimeout: 1_000 });
    for (let round = 0; round < 3; round += 1)
      await cluster.settle((await cluster.settle(redlock.acquire('a'))).release());
    const slow = { type: 'slow-quorum', roundTripMs: 400, ttlMs: 3_000 };
    expect(received('slow-quorum')).toEqual([slow]);
    await cluster.advance(60_000);
    await cluster.settle((await cluster.settle(redlock.acquire('a'))).release());
    expect(received('slow-quorum')).toEqual([slow, slow]);
    const quick = await newProcess({ latencyMs: 200, nodeTimeout: 1_000 });
    await tryOnce(quick);
    expect(quick.received('slow-quorum')).toEqual([]);
  });
});

describe('the causes of a failed try', () => {
  it('say when each node answered, how long the holder has it, and when the round ended', async () => {
    const process = await newProcess({});
    const { cluster, nodes } = process;
    cluster.occupy('a', [0], 5_000);
    cluster.servers[1]!.state.locks.set('lock:a', 'foreign', null);
    nodes.forEach((node, index) => (node.latencyMs = 10 * (index + 1)));
    const { causes } = await tryOnce(process);
    const messages = [
      'held by another holder for 4995 ms more',
      'held by another holder without end (no TTL)',
      'not waited for: the other nodes decided',
    ];
    const elapsedMs = causes.map((cause) => [cause.reason, cause.elapsedMs].join());
    expect(elapsedMs).toEqual(['held,10', 'held,20', 'not-awaited,20']);
    expect(causes.map(({ message }) => message)).toEqual(messages);
  });
});

describe('a try that too few nodes could answer from the start', () => {
  it('does not name those unreachable whose request never left', async () => {
    const process = await newProcess();
    const { cluster } = process;
    for (const server of cluster.servers.slice(1)) server.kill();
    await cluster.advance(10);
    // The request of the second one is collected, and taken back.
    const ended = await cluster.settle(Promise.all(['a', 'b'].map((key) => tryOnce(process, key))));
    for (const { causes } of ended)
      expect(causes.map(({ reason }) => reason)).toEqual([
        'not-awaited',
        'unreachable',
        'unreachable',
      ]);
    expect(process.node.asked('acquire').length).toBeGreaterThanOrEqual(2);
  });
});

describe('an extension', () => {
  it('makes a node that it was sent to one that may hold the lock, also when that answers at once', async () => {
    const process = await newProcess();
    const { cluster, nodes } = process;
    nodes[0]!.failNext(...OOM);
    const lock = await tryOnce(process);
    expect(cluster.holdersOf('a')).toEqual([undefined, lock.token.holder, lock.token.holder]);
    nodes[0]!.extend = (request, settle) => (settle(cluster.servers[0]!.extend(request)), false);
    await cluster.settle(lock.extend());
    expect(cluster.holdersOf('a')[0]).toBe(lock.token.holder);
    await cluster.settle(lock.release());
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });
});

describe('where the third fastest of five nodes takes 3 ms, acquire and release take that each', () => {
  it.each([
    ['one slow', [1, 2, 3, 4, 50], 5],
    ['two slow', [1, 2, 3, 50, 50], 5],
    ['one frozen', [3, 3, 3, 3, 0], 4],
    ['two frozen', [3, 3, 3, 0, 0], 3],
  ])('again and again, in one message to each: %s', async (_, tripsMs, answering) => {
    const { cluster, nodes, redlock } = await newProcess({}, 5);
    for (const [index, node] of nodes.entries()) node.latencyMs = tripsMs[index]!;
    for (const node of nodes.slice(answering)) node.freeze();
    const startedAtMs = cluster.nowMs;
    // On a slow node the key may still be held by the lock before. In all, longer than three node timeouts.
    for (let cycle = 0; cycle < 200; cycle += 1) {
      const lock = await cluster.settle(redlock.acquire('key'));
      await cluster.settle(lock.release());
    }
    expect(cluster.nowMs - startedAtMs).toBe(200 * (3 + 3));
    const live = nodes.slice(0, answering);
    const asked = live.map((node) => [node.asked('acquire').length, node.asked('release').length]);
    expect(asked).toEqual(live.map(() => [200, 200]));
  });
});
