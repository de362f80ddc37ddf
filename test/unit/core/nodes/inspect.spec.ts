import { describe, expect, it } from '@jest/globals';
import type { QuorumUnavailableError } from '../../../../lib/core/errors.ts';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();

/** Result of an inspection of a key that `holders` of three servers hold while those in `down` don't answer. */
async function seen(holders: readonly number[], down: readonly number[], how: 'kill' | 'freeze') {
  const { cluster, redlock } = await newProcess();
  cluster.occupy('a', holders, 60_000);
  for (const index of down) cluster.servers[index]![how]();
  const startedAtMs = cluster.nowMs;
  const { holder, remainingMs, nodes } = await cluster.settle(redlock.inspect('a'));
  expect(cluster.nowMs - startedAtMs).toBeLessThanOrEqual(300);
  expect(nodes.flatMap(({ failure }, index) => (failure ? [index] : []))).toEqual(down);
  return [holder, remainingMs > 50_000];
}

describe.each(['kill', 'freeze'] as const)('an inspection (nodes are away by %s)', (how) => {
  it('names the holder that a quorum reports, or says that there is none', async () => {
    expect(await seen([0, 1, 2], [], how)).toEqual(['foreign', true]);
    expect(await seen([0, 1], [2], how)).toEqual(['foreign', true]);
    expect(await seen([2], [], how)).toEqual([null, false]);
    expect(await seen([], [2], how)).toEqual([null, false]);
  });

  it('says that it does not know where nodes without an answer could make it a quorum', async () => {
    expect(await seen([1, 2], [2], how)).toEqual([undefined, false]);
    expect(await seen([0, 1, 2], [1, 2], how)).toEqual([undefined, false]);
    expect(await seen([], [1, 2], how)).toEqual([undefined, false]);
  });
});

it('an inspection knows of no holder after close, and calls no lock free', async () => {
  const { cluster, redlock } = await newProcess();
  await cluster.settle(redlock.close());
  expect((await cluster.settle(redlock.inspect('a'))).holder).toBeUndefined();
});

it('an inspection leads to the process that holds a lock, also while others try, and after its key was deleted', async () => {
  const { cluster, redlock, received } = await newProcess();
  const { redlock: other } = await cluster.process();
  const { token } = await cluster.settle(redlock.acquire('a'));
  for (const wait of [0, 500]) await cluster.failure(other.acquire('a', { wait }));
  const found = await cluster.settle(other.inspect('a'));
  expect(received('acquired')).toMatchObject([{ token: Number(found.lastToken) }]);
  expect(found).toMatchObject({ holder: token.holder, lastToken: String(token) });
  for (const server of cluster.servers) server.deleteLock('lock:a');
  expect(await cluster.settle(other.inspect('a'))).toMatchObject({ holder: null });
  await cluster.advance(1_500);
  expect(await cluster.settle(other.inspect('a'))).toMatchObject({ holder: token.holder });
});

it('a list that too few servers answered says for how long it waited, and speaks of no start', async () => {
  const { cluster, redlock } = await newProcess();
  for (const index of [0, 1]) cluster.servers[index]!.freeze();
  const startedAtMs = cluster.nowMs;
  const error = (await cluster.failure(redlock.list())) as QuorumUnavailableError;
  const waitedMs = Math.round(cluster.nowMs - startedAtMs);
  expect(waitedMs).toBeGreaterThan(0);
  expect(error.message).toContain(`No quorum for the list of locks after ${waitedMs} ms: 2 of 3`);
});
