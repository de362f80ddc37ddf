import { beforeEach, describe, expect, it } from '@jest/globals';
import { scriptedSet } from '../support/scripted-node.ts';

let world: ReturnType<typeof scriptedSet>;
/** Number of times the layers above learnt that a clock moved. */
let moves: number;

beforeEach(() => {
  moves = 0;
  world = scriptedSet({ size: 2 }, { clockMoved: () => void (moves += 1) });
});

describe('a look at the clocks', () => {
  /** Time that was found to be missing, and how often the clocks have moved. */
  async function look(): Promise<[suspendedMs: number, moves: number]> {
    const { set, environment } = world;
    expect(set.clock.checkedNowMs).toBe(set.clock.nowMs);
    await environment.flush();
    // The time is longer by up to two steps of the clock, so that it is never taken to be shorter.
    return [Math.floor(set.clock.suspendedMs / 50) * 50, moves];
  }

  it('finds each suspend, also when the wall clock was set at the same time', async () => {
    const { environment } = world;
    environment.skip(1_230);
    environment.suspend(20_000);
    expect(await look()).toEqual([20_000, 1]);
    environment.skip(1_000);
    expect(await look()).toEqual([20_000, 1]);
    environment.suspend(500);
    environment.shiftWallClock(-3_600_000);
    expect(await look()).toEqual([20_500, 2]);
  });

  it('takes no suspend to be shorter than it was, whatever it found before', async () => {
    const { set, environment } = world;
    for (let count = 0; count < 20; count += 1) {
      environment.skip(101.7 * count);
      const beforeMs = set.clock.checkedNowMs;
      environment.suspend(210.3);
      expect(set.clock.checkedNowMs - beforeMs).toBeGreaterThanOrEqual(210.3);
      await environment.flush();
    }
  });
});

describe('connections', () => {
  it('are replaced node by node, none while one is in quarantine, and all after a pause of the process', async () => {
    const { set, environment, nodes, connect } = scriptedSet({ size: 2, maxConnectionAge: '1m' });
    const renewed: number[] = [];
    for (const [index, node] of nodes.entries())
      Object.assign(node, { renew: () => void renewed.push(index) });
    connect();
    renewed.length = 0;
    await environment.advance(150_000);
    // Two nodes and half a minute for each, give or take a quarter.
    const turns = renewed.splice(0);
    expect(turns.length).toBeGreaterThanOrEqual(3);
    expect(turns.length).toBeLessThanOrEqual(6);
    expect(turns.every((node, at) => at === 0 || node !== turns[at - 1])).toBe(true);
    set.sessions[0]!.votesAtMs = set.clock.nowMs + 100_000;
    await environment.advance(99_000);
    expect(renewed).toEqual([]);
    environment.skip(4_000);
    await environment.advance(1);
    expect(renewed.splice(0)).toEqual([0, 1]);
    environment.suspend(20_000);
    expect(set.clock.checkedNowMs).toBeGreaterThan(20_000);
    await environment.flush();
    expect(renewed).toEqual([0, 1]);
    await set.close();
  });
});
