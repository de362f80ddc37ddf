import { describe, expect, it } from '@jest/globals';
import type { Membership } from '../world/client-process.ts';
import { Stage } from '../world/stage.ts';

const TTL_MS = 500;
const THREE: Membership = { nodes: [0, 1, 2], quorum: 2 };
const ALL = [0, 1, 2, 3, 4];

/** Two processes on nodes 0, 1 and 2 of five servers. */
async function threeOfFive(): Promise<Stage> {
  const stage = await Stage.open({ nodes: 5, clients: 2, ttlMs: TTL_MS, guard: true });
  for (const client of [0, 1]) await stage.roll(client, THREE);
  return stage;
}

/** Lets one client acquire with nodes out of its reach, then the other with others: how many believe at once? */
async function holders(
  stage: Stage,
  cuts: readonly [first: number[], second: number[]],
): Promise<number> {
  stage.cut(0, cuts[0]);
  stage.cut(1, cuts[1]);
  const tries = [];
  for (const client of [0, 1]) {
    tries.push(
      await stage.do(client, ({ redlock }) =>
        redlock.acquire('a', { wait: 0, extend: false }).catch(() => undefined),
      ),
    );
  }
  const held = tries.filter((lock) => lock?.isHeld === true);
  const tokens = held.map((lock) => lock!.token.value);
  expect([...tokens].sort((a, b) => a - b)).toEqual(tokens);
  stage.mend(0, cuts[0]);
  stage.mend(1, cuts[1]);
  for (const [client, lock] of tries.entries())
    if (lock) await stage.do(client, () => lock.release());
  await stage.advance(2 * TTL_MS);
  return held.length;
}

/** Tries every way to cut the same small number of nodes off from each of the two, as far as their sets reach. */
async function mostHolders(
  stage: Stage,
  sizes: readonly [first: number, second: number],
): Promise<number> {
  let most = 0;
  const cutsOf = (size: number): number[][] =>
    size < 5 ? [[], [0], [2]] : [[], [0, 1], [3, 4], [2, 3]];
  for (const first of cutsOf(sizes[0]))
    for (const second of cutsOf(sizes[1]))
      most = Math.max(most, await holders(stage, [first, second]));
  return most;
}

describe('From three nodes to five', () => {
  it('step by step, with a larger quorum between, no lock is held twice at any moment', async () => {
    const stage = await threeOfFive();
    expect(await mostHolders(stage, [3, 3])).toBe(1);
    const steps: Membership[] = [
      { nodes: ALL, quorum: 4 },
      { nodes: ALL, quorum: 3 },
    ];
    let before = 3;
    for (const membership of steps) {
      // Processes change one after the other; in between they differ.
      await stage.roll(1, membership);
      await stage.advance(2 * TTL_MS);
      expect(await mostHolders(stage, [before, 5])).toBe(1);
      await stage.roll(0, membership);
      await stage.advance(2 * TTL_MS);
      expect(await mostHolders(stage, [5, 5])).toBe(1);
      before = 5;
    }
    await stage.close();
  });

  it('in one step two processes can hold it: their majorities need not meet', async () => {
    const stage = await threeOfFive();
    await stage.roll(1, { nodes: ALL, quorum: 3 });
    await stage.advance(2 * TTL_MS);
    expect(await mostHolders(stage, [3, 5])).toBe(2);
    await stage.close();
  });
});
