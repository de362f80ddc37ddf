import { beforeEach, describe, expect, it } from '@jest/globals';
import { Alarm } from '../../../../lib/core/nodes/deadlines.ts';
import { scriptedSet } from '../support/scripted-node.ts';

let world: ReturnType<typeof scriptedSet>;
/** How often the layers above learnt that a clock moved. */
let moves: number;

beforeEach(() => {
  moves = 0;
  world = scriptedSet({ size: 2 }, { clockMoved: () => void (moves += 1) });
});

describe('a look at the clocks', () => {
  /** How much time was found to be missing, and how often the clocks have moved. */
  async function look(): Promise<[suspendedMs: number, moves: number]> {
    const { set, environment } = world;
    expect(set.checkedNowMs).toBe(set.nowMs);
    await environment.flush();
    // By up to two steps of the clock longer, so that it is never taken to be shorter.
    return [Math.floor(set.suspendedMs / 50) * 50, moves];
  }

  it('finds nothing while they go on together, and reads the clock since boot for that only once', async () => {
    const { clock } = world.environment;
    const sinceBootMs = clock.sinceBootMs.bind(clock);
    let reads = 0;
    clock.sinceBootMs = () => (reads++, sinceBootMs());
    for (let step = 0; step < 100; step += 1) {
      world.environment.skip(7);
      // Many small differences may add up.
      world.environment.shiftWallClock(step % 3 === 0 ? -20 : 20);
      expect(await look()).toEqual([0, 0]);
    }
    expect(reads).toBe(0);
  });

  it.each([-60_000, -21, 21, 60_000])(
    'finds a step of the wall clock by %i ms, once',
    async (ms) => {
      world.environment.shiftWallClock(ms);
      expect([await look(), await look()].flat()).toEqual([0, 1, 0, 1]);
    },
  );

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

  it('never takes one of several for shorter than it was', async () => {
    const { environment, set } = world;
    for (let count = 0; count < 50; count += 1) {
      environment.skip(100 + ((count * 7) % 13));
      const beforeMs = set.checkedNowMs;
      environment.suspend(90 + ((count * 3) % 11));
      expect(set.checkedNowMs - beforeMs).toBeGreaterThanOrEqual(90 + ((count * 3) % 11));
      await environment.flush();
    }
  });

  it('never takes one for shorter because its process paused between two clocks', async () => {
    const { environment } = world;
    const { clock } = environment;
    const sinceBootMs = clock.sinceBootMs.bind(clock);
    let reads = 0;
    clock.sinceBootMs = () => {
      const readMs = sinceBootMs();
      if (reads++ === 0) environment.skip(500);
      return readMs;
    };
    environment.suspend(20_000);
    expect(await look()).toEqual([20_000, 1]);
  });

  it('says so at the end of the tick: who looks may be a getter', async () => {
    world.environment.suspend(20_000);
    expect(world.set.nowMs).toBe(1_000);
    expect([world.set.checkedNowMs, moves]).toEqual([21_010, 0]);
    await world.environment.flush();
    expect(moves).toBe(1);
  });

  it.each(['alarms', 'budgets'] as const)(
    'ends those %s whose time passed in a suspend',
    async (name) => {
      const { set, environment } = world;
      const ended: number[] = [];
      for (const delayMs of [5_000, 60_000])
        set[name].set(new Alarm(() => void ended.push(delayMs)), 1_000 + delayMs);
      environment.suspend(20_000);
      await look();
      expect(ended).toEqual([5_000]);
      await environment.advance(40_020);
      expect(ended).toEqual([5_000, 60_000]);
      await set.close();
    },
  );
});

describe('the round trip', () => {
  it('is never measured longer than a node may take: what is beyond that, this process did not run', () => {
    const { set } = world;
    for (const elapsedMs of [2_500, 2_500]) set.measured(elapsedMs, 3_000, 1_000);
    expect(set.roundTripMs).toBe(300);
  });

  it('follows shorter ones at once, and longer ones slowly: they are often pauses of this process', () => {
    const { set } = world;
    for (const elapsedMs of [10, 2, 2, 2]) set.measured(elapsedMs, 3_000, 1_000);
    expect(set.roundTripMs).toBe(3);
    set.measured(11, 3_000, 1_000);
    expect(set.roundTripMs).toBe(4);
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
    set.sessions[0]!.votesAtMs = set.nowMs + 100_000;
    await environment.advance(99_000);
    expect(renewed).toEqual([]);
    environment.skip(4_000);
    await environment.advance(1);
    expect(renewed.splice(0)).toEqual([0, 1]);
    environment.suspend(20_000);
    expect(set.checkedNowMs).toBeGreaterThan(20_000);
    await environment.flush();
    expect(renewed).toEqual([0, 1]);
    await set.close();
  });
});

describe('the end of the process', () => {
  it('is waited for while the set is open, and no longer', async () => {
    const { set, environment, connect } = world;
    connect();
    expect(environment.exitCallbacks).toBe(1);
    await set.close();
    expect(environment.exitCallbacks).toBe(0);
  });
});

describe('what nodes have collected', () => {
  it('is flushed on every node once, at the end of the tick, and then counts as sent', async () => {
    const { set, nodes, environment } = world;
    const story: string[] = [];
    const sent = (name: string) => ({
      sent: (nowMs: number) => void story.push(`${name}@${nowMs}`),
    });
    set.afterFlush(() => story.push('at once'));
    expect(set.whenFlushed()).toBeUndefined();
    for (const name of ['a', 'b']) set.flushLater(sent(name));
    set.afterFlush(() => story.push('after'));
    const flushed = [set.whenFlushed(), set.whenFlushed()];
    expect([story, flushed[0] === flushed[1], nodes[0]!.story]).toEqual([['at once'], true, []]);
    environment.skip(5);
    await environment.flush();
    await flushed[0];
    expect(story).toEqual(['at once', 'a@1005', 'b@1005', 'after']);
    set.flushLater(sent('c'));
    expect(set.whenFlushed()).not.toBe(flushed[0]);
    set.flush();
    await environment.flush();
    expect(nodes.map((node) => node.story)).toEqual([
      ['flush', 'flush'],
      ['flush', 'flush'],
    ]);
    set.flushLater(sent('d'));
    await set.close();
    expect(story.at(-1)).toBe('d@1005');
  });
});
