import { expect, it } from '@jest/globals';
import { NodeSet } from '../../../../lib/core/nodes/node-set.ts';
import { resolveOptions } from '../../../../lib/core/options/resolve-options.ts';
import { ManualEnvironment } from '../../../support/manual-environment.ts';
import { processFactory } from '../support/cluster.ts';

const newProcess = processFactory();

/** A set without nodes, which has clocks all the same; `look` gives what time was found to be missing, and how often they moved. */
function clocks() {
  const environment = new ManualEnvironment();
  let moves = 0;
  const none = () => undefined;
  const listener = { joined: none, turn: none, listening: none, doubted: () => (moves += 1) };
  const set = new NodeSet([], resolveOptions({}, 1), environment, listener);
  const look = async (): Promise<[suspendedMs: number, moves: number]> => {
    expect(set.clock.checkedNowMs).toBe(set.clock.nowMs);
    await environment.flush();
    // The time is longer by up to two steps of the clock, so that it is never taken to be shorter.
    return [Math.floor(set.clock.suspendedMs / 50) * 50, moves];
  };
  return { environment, set, look };
}

it('a look at the clocks finds each suspend, also when the wall clock was set at the same time', async () => {
  const { environment, look } = clocks();
  environment.skip(1_230);
  environment.suspend(20_000);
  expect(await look()).toEqual([20_000, 1]);
  environment.skip(1_000);
  expect(await look()).toEqual([20_000, 1]);
  environment.suspend(500);
  environment.shiftWallClock(-3_600_000);
  expect(await look()).toEqual([20_500, 2]);
});

it('a look at the clocks takes no suspend to be shorter than it was, whatever it found before', async () => {
  const { environment, set } = clocks();
  for (let count = 0; count < 20; count += 1) {
    environment.skip(101.7 * count);
    const beforeMs = set.clock.checkedNowMs;
    environment.suspend(210.3);
    expect(set.clock.checkedNowMs - beforeMs).toBeGreaterThanOrEqual(210.3);
    await environment.flush();
  }
});

it('connections are replaced node by node, none while one is in quarantine, and all after a pause of the process', async () => {
  const options = { maxConnectionAge: '1m', restartGuard: true, ttl: '100s', open: false } as const;
  const { cluster, redlock, nodes } = await newProcess(options, 2);
  const renewed: number[] = [];
  for (const [index, node] of nodes.entries())
    Object.assign(node, { renew: () => void renewed.push(index) });
  redlock.open();
  await cluster.advance(101_000);
  renewed.length = 0;
  await cluster.advance(150_000);
  // Two nodes and half a minute for each, give or take a quarter.
  const turns = renewed.splice(0);
  expect(turns.length).toBeGreaterThanOrEqual(3);
  expect(turns.length).toBeLessThanOrEqual(6);
  expect(turns.every((node, at) => at === 0 || node !== turns[at - 1])).toBe(true);
  cluster.servers[0]!.restart({ keepData: false });
  await cluster.advance(99_000);
  expect(renewed).toEqual([]);
  cluster.environment.skip(4_000);
  await cluster.advance(1);
  expect(renewed.splice(0)).toEqual([0, 1]);
  cluster.environment.suspend(20_000);
  await cluster.settle(redlock.acquire('a'));
  expect(renewed).toEqual([0, 1]);
});
