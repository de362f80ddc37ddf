import { beforeEach, describe, expect, it } from '@jest/globals';
import { KeyTable } from '../../../../lib/core/holding/key-table.ts';
import type { KeyRecord } from '../../../../lib/core/holding/key-table.ts';
import type { WaitRequest } from '../../../../lib/core/nodes/lock-node.ts';
import { Caller, lockOf } from '../support/callers.ts';
import { scriptedSet } from '../support/scripted-node.ts';

let world: ReturnType<typeof scriptedSet>;
let table: KeyTable;
let record: KeyRecord;
let woken: number[];

beforeEach(() => {
  world = scriptedSet({ size: 3 });
  world.connect();
  table = new KeyTable(world.set);
  record = table.use('a');
  woken = [];
  record.enter(new Caller(1, woken));
});

const stand = () => table.stand(record, world.set.nowMs);
const advance = (ms: number) => world.environment.advance(ms);
/** What each node was asked and has not answered, the tickets. */
const asked = () =>
  world.nodes.map(({ waiting }) =>
    waiting.flatMap(({ name, request }) =>
      name === 'wait' ? (request as WaitRequest).ticket : [],
    ),
  );
/** These nodes answer with this ticket each, and say when the lease ends. */
const answer = (tickets: readonly number[], freeInMs: number | readonly number[]) => {
  for (const [index, ticket] of tickets.entries()) {
    const ms = typeof freeInMs === 'number' ? freeInMs : freeInMs[index]!;
    world.nodes[index]!.answer('wait', { kind: 'waiting', ticket, freeInMs: ms });
  }
};
const turnOf = (index: number) => table.turn(world.set.sessions[index]!, 'lock:a', 0);
const FOREIGN = { untilMs: 9_000, freeAtMs: 9_000, causes: () => [] };

describe('the ticket of a process', () => {
  it('is the second earliest time that three nodes said, from then on, until the key is granted', async () => {
    stand();
    expect(asked()).toEqual([[0], [0], [0]]);
    answer([30, 10], 60_000);
    for (const round of [1, 2]) {
      await advance(400);
      expect([round, asked().map((tickets) => tickets.at(-1))]).toEqual([round, [30, 30, 30]]);
      answer([70, 80], 60_000);
    }
    table.granted(lockOf('mine'), [record]);
    for (const { waiting } of world.nodes) waiting.splice(0);
    table.freed(record.lock!, [record]);
    stand();
    expect(asked()).toEqual([[0], [0], [0]]);
  });

  it('is asked for under the mark of the service, with a grace of four round trips and the channel', () => {
    const { mark, channel } = world.set;
    const members: string[] = [];
    for (const roundTripMs of [1, 2, 10, 100]) {
      world.set.roundTripMs = roundTripMs;
      const other = table.use(`key${roundTripMs}`);
      other.enter(new Caller(1));
      table.stand(other, world.set.nowMs);
      members.push((world.node.waiting.at(-1)!.request as WaitRequest).member);
    }
    expect(members).toEqual([10, 20, 80, 640].map((ms) => `${mark} ${ms} ${channel}`));
    expect([world.node.channel, channel.startsWith('lock:#turns:')]).toEqual([channel, true]);
  });
});

describe('a process in line', () => {
  it('tries when a quorum keeps the key for it, or a single node does and a round trip has passed', async () => {
    for (const isAlone of [false, true]) {
      stand();
      answer([1, 1, 1], 60_000);
      turnOf(0);
      expect([woken, record.queued?.hasTurn]).toEqual([[], false]);
      if (isAlone) await advance(2);
      else turnOf(2);
      expect([woken.splice(0), record.queued?.hasTurn]).toEqual([[1], true]);
      turnOf(1);
      expect(woken).toEqual([]);
    }
  });

  it('tries when a quorum says that the key is free, without being called', () => {
    record.foreign = FOREIGN;
    stand();
    answer([1, 1, 1], [0, 60_000, 0]);
    expect([woken, record.queued?.hasTurn]).toEqual([[1], false]);
  });

  it('leaves a holder alone until the end of the lease on a quorum, and some round trips', async () => {
    record.foreign = FOREIGN;
    stand();
    answer([1, 1, 1], [350, 100, 300]);
    const slackMs = 4 * world.set.roundTripMs + 10;
    expect(record.foreign).toMatchObject({ untilMs: world.set.nowMs + 300 + slackMs });
    // It stands in line again when the lease ends, which names the first.
    await advance(300);
    expect(asked()[0]).toEqual([]);
    await advance(1);
    expect(asked()[0]).toEqual([1]);
  });

  it('asks again every 400 ms, after the turn of the one before it, and behind the others after a turn that it did not take', async () => {
    stand();
    answer([1, 1, 1], 60_000);
    table.turn(world.set.sessions[0]!, 'lock:a', 50);
    await advance(50);
    expect(asked()[0]).toEqual([]);
    await advance(1);
    expect(asked()[0]).toEqual([1]);
    answer([1, 1, 1], 60_000);
    for (const index of [0, 1]) turnOf(index);
    await advance(19);
    expect(asked()[0]).toEqual([]);
    await advance(1);
    expect(asked()[0]).toEqual([0]);
    answer([7, 8, 9], 60_000);
    await advance(399);
    expect(asked()[0]).toEqual([]);
    await advance(1);
    expect(asked()[0]).toEqual([8]);
  });

  it('asks a node again that names turns from now on, since it may have named one before', () => {
    stand();
    answer([1, 1, 1], 60_000);
    table.listening(world.set.sessions[1]!);
    expect(asked().map((tickets) => tickets.length)).toEqual([0, 1, 0]);
  });

  it('is not called by what was asked before its try, nor by failures', () => {
    stand();
    record.queued?.end();
    answer([1, 1, 1], 0);
    stand();
    for (const node of world.nodes) node.answer('wait', { kind: 'failed' });
    expect(woken).toEqual([]);
  });
});
