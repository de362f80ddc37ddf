import { describe, expect, it } from '@jest/globals';
import type { LockBusyError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();
const sizes = [1, 2, 3, 4, 5, 6, 7];
const majority = (size: number) => Math.floor(size / 2) + 1;

type Process = Awaited<ReturnType<typeof newProcess>>;

/** Result of one try for `key`, a lock or an error, and how long it took. */
async function tryOnce({ cluster, redlock }: Process, key = 'a') {
  const startedAtMs = cluster.nowMs;
  const outcome = redlock.acquire(key, { wait: 0 }).catch((error: unknown) => error);
  const result = (await cluster.settle(outcome)) as Lock & LockBusyError;
  return Object.assign(result, { tookMs: cluster.nowMs - startedAtMs });
}

describe.each(sizes)('with %i nodes', (size) => {
  it('a grant and a loss wait for the deciding vote only, not for slower nodes', async () => {
    const process = await newProcess({}, size);
    for (const [index, node] of process.nodes.entries()) node.latencyMs = 10 * (index + 1);
    expect((await tryOnce(process)).tookMs).toBe(10 * majority(size));
    process.cluster.occupy(
      'b',
      sizes.slice(0, size).map((node) => node - 1),
      60_000,
    );
    // When the votes that decide name no holder by majority, one more try has to name the same.
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
});

describe('a process that was stopped before its votes had left', () => {
  /** Lets the process be stopped while it writes the next vote: to the nodes one by one, or all of them at the end of the tick. */
  function stopInNextVote({ cluster, nodes }: Process, atEndOfTick: boolean): void {
    const leave: (() => void)[] = [];
    let stopMs = 1_700;
    const write = (send: () => void) => {
      cluster.environment.skip(stopMs);
      stopMs = 0;
      send();
    };
    for (const node of nodes) {
      const acquire = node.acquire.bind(node);
      node.acquire = (...vote) => {
        const send = () => void acquire(...vote);
        if (atEndOfTick) leave.push(send);
        else write(send);
        return atEndOfTick;
      };
      node.flush = () => {
        for (const send of leave.splice(0)) write(send);
      };
    }
  }

  it.each([
    ['one by one', false],
    ['at the end of the tick', true],
  ])('%s does not take the nodes for silent: a held key is busy', async (_, atEndOfTick) => {
    const process = await newProcess({}, 5);
    const { cluster, nodes } = process;
    cluster.servers[4]!.kill();
    cluster.occupy('b', [0, 1, 2, 3], 60_000);
    for (const node of nodes.slice(2)) node.latencyMs = 40;
    await cluster.advance(3_000);
    stopInNextVote(process, atEndOfTick);
    const lock = process.redlock.acquire('a');
    await cluster.environment.flush();
    await cluster.advance(13);
    expect(await tryOnce(process, 'b')).toMatchObject({ code: 'LOCK_BUSY' });
    await cluster.settle(lock);
  });
});

describe('the time that a round took', () => {
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
});

it('tokens need one ballot, once a process knows that the floor is ahead of its clock', async () => {
  const { cluster, redlock, node } = await newProcess({}, 3);
  const ahead = await cluster.process({ wallErrorMs: 60_000 });
  const first = await cluster.settle(ahead.redlock.acquire('a'));
  await cluster.failure(redlock.acquire('a', { wait: 0 }));
  await cluster.settle(first.release());
  for (let round = 0; round < 2; round += 1)
    await cluster.settle((await cluster.settle(redlock.acquire('a'))).release());
  expect(node.asked('acquire')).toHaveLength(3);
});
