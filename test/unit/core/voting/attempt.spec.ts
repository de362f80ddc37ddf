import { describe, expect, it } from '@jest/globals';
import type { AcquireRequest, ReleaseRequest } from '../../../../lib/core/nodes/lock-node.ts';
import { NodeNames } from '../../../../lib/core/nodes/node-names.ts';
import {
  Attempt,
  type AttemptListener,
  type AttemptOutcome,
} from '../../../../lib/core/voting/attempt.ts';
import { clusterFactory } from '../support/cluster.ts';
import type { LockProcess } from '../support/cluster.ts';
import { reply } from '../support/reply.ts';
import { scriptedSet } from '../support/scripted-node.ts';

/** An attempt with a first ballot, on nodes that answer as their scripts say. */
function begin(ballot: number, size = 3, roundTripMs?: number) {
  const world = scriptedSet({ size });
  const { set, nodes } = world;
  world.connect();
  if (roundTripMs !== undefined) {
    set.roundTripMs = roundTripMs;
    set.measured = () => undefined;
  }
  const floors: number[] = [];
  /** How many releases had been sent when others were found to want the key. */
  const refusals: number[] = [];
  const listener: AttemptListener = {
    sawFloor: (floor) => void floors.push(floor),
    sawVotes: () => undefined,
    refused: () => refusals.push(released().length),
    ended: (result) => end(result),
  };
  const names = new NodeNames('lock:', ['a']);
  const settings = { ttlMs: 3_000, nodeTimeoutMs: 300 };
  const attempt = new Attempt(set, listener, names, settings, set.nowMs + 300);
  const ends: AttemptOutcome[] = [];
  let resolve: (result: AttemptOutcome) => void;
  const outcome = new Promise<AttemptOutcome>((settle) => (resolve = settle));
  const end = (result: AttemptOutcome) => {
    ends.push(result);
    resolve(result);
  };
  attempt.run(set.nowMs, ballot);
  const requests = new Set<AcquireRequest>();
  const look = () => {
    for (const { name, request } of nodes[0]!.waiting)
      if (name === 'acquire') requests.add(request as AcquireRequest);
  };
  /** Answers in the order of the nodes; `-` is none. Those to an earlier ballot that are still open come first. */
  const answer = (texts: string) => {
    look();
    for (const [index, text] of texts.trim().split(/\s+/).entries())
      if (text !== '-') nodes[index]!.answer('acquire', reply(text));
    look();
  };
  /** Whom each node was asked to release: `<node>:<holder>`, with `!` when that makes it the turn of the next in line. */
  const released = () =>
    nodes.flatMap(({ waiting }, index) =>
      waiting.flatMap(({ name, request }) => {
        const { holder, pass } = request as ReleaseRequest;
        const number = [...new Set([...requests].map((each) => each.holder))].indexOf(holder) + 1;
        return name === 'release' ? `${index}:${number}${pass ? '!' : ''}` : [];
      }),
    );
  return { ...world, attempt, outcome, ends, answer, released, requests, floors, refusals };
}

// first ballot | answers; answers to the next ballot | ballots sent, their holders, what became of it, releases
const TABLE = `
  100   | yes yes -                                       | 100 | 1 | granted 100 111 |
  100   | yes unknown yes                                 | 100 | 1 | granted 100 111 |
  100   | refused yes yes                                 | 100 | 1 | granted 100 110 |
  100   | stale:300 stale:500 -; yes yes -                | 100,501 | 1,1 | granted 501 111 |
  100   | yes stale:300 stale:200; refused yes yes        | 100,301 | 1,1 | granted 301 111 |
  100   | stale:300:900:clock stale:5 -; yes yes -        | 100,901 | 1,1 | granted 901 111 |
  100   | stale:1 stale:200 -; stale:300 stale:1 -; yes yes - | 100,201,301 | 1,1,1 | granted 301 111 |
  100   | stale:1 stale:200 -; stale:300 stale:1 -; stale:400 stale:1 - | 100,201,301 | 1,1,1 | failed | 2:1!
  100   | held:x:9 held:x:9 -                             | 100 | 1 | failed | 2:1
  100   | held:x:9 refused -                              | 100 | 1 | failed | 2:1
  100   | yes held:x:9 held:x:9                           | 100 | 1 | failed | 0:1
  100   | yes unknown held:x:9                            | 100 | 1 | failed | 0:1! 1:1!
  90000 | ahead:4000:0 ahead:4500:0 yes; yes yes -        | 90000,4501 | 1,2 | granted 4501 111 | 2:1
  90000 | ahead:4000:0 stale:95000 -; yes yes -           | 90000,95001 | 1,1 | granted 95001 111 |`;

describe('an attempt', () => {
  it.each(TABLE.trim().split('\n'))('%s', async (row) => {
    const [ballot, rounds, ballots, holders, result, releases] = row
      .split('|')
      .map((s) => s.trim());
    const { outcome, answer, released, requests } = begin(Number(ballot), 3, 0);
    for (const texts of rounds!.split(';')) answer(texts);
    const ended = await outcome;
    const text =
      ended.kind === 'granted'
        ? `${ended.ballot} ${ended.mayHold.toString(2).padStart(3, '0')}`
        : '';
    expect(`${ended.kind} ${text}`.trim()).toBe(result);
    const sent = [...requests];
    const names = [...new Set(sent.map(({ holder }) => holder))];
    expect(sent.map((request) => request.ballot).join()).toBe(ballots);
    expect(sent.map(({ holder }) => names.indexOf(holder) + 1).join()).toBe(holders);
    expect(released().join(' ')).toBe(releases);
    const { holder } = sent.at(-1)!;
    expect(ended.kind === 'granted' ? ended.holder : holder).toBe(holder);
  });

  it('counts no answer to an earlier ballot, which may come after the next one was sent', async () => {
    const { outcome, answer, environment, released } = begin(100);
    answer('stale:300 stale:300 -');
    // Node 2 accepts the first one; that and one accept of the second are no quorum.
    answer('yes - yes');
    await environment.advance(300);
    expect(await outcome).toMatchObject({ kind: 'failed' });
    expect(released()).toEqual(['0:1', '1:1', '2:1']);
  });

  it('has for its second ballot what the first one left', async () => {
    const { set, outcome, answer, environment, requests } = begin(100);
    await environment.advance(200);
    answer('stale:300 stale:300 -');
    await environment.advance(99);
    answer('- - yes');
    const endedAtMs = set.nowMs + 1;
    await environment.advance(1);
    expect(await outcome).toMatchObject({ kind: 'failed', endedAtMs, timeoutMs: 100 });
    expect(requests.size).toBe(2);
  });
});

describe('tokens', () => {
  const newCluster = clusterFactory();
  const DAY_MS = 86_400_000;

  it('grow with every grant, whatever the clocks of the processes do', async () => {
    const cluster = await newCluster(5);
    const processes: LockProcess[] = [];
    for (const wallErrorMs of [0, -3_600_000, 40_000, 0.9 * DAY_MS, 3 * DAY_MS, -5])
      processes.push(await cluster.process({ wallErrorMs }));
    let last = 0;
    for (let round = 0; round < 60; round += 1) {
      if (round === 30) cluster.environment.shiftWallClock(-30_000);
      const { redlock } = processes[(round * 7) % processes.length]!;
      const keys = round % 5 === 0 ? ['a', 'b', 'c'] : 'b';
      const lock = await cluster.settle(redlock.acquire(keys, { wait: 0 }));
      expect(lock.token.value).toBeGreaterThan(last);
      last = lock.token.value;
      await cluster.settle(lock.release());
    }
  });

  it('need one ballot, once a process knows that the floor is ahead of its clock', async () => {
    const cluster = await newCluster(3);
    const ahead = await cluster.process({ wallErrorMs: 60_000 });
    const waiter = await cluster.process();
    const first = await cluster.settle(ahead.redlock.acquire('a'));
    await cluster.failure(waiter.redlock.acquire('a', { wait: 0 }));
    await cluster.settle(first.release());
    for (let round = 0; round < 2; round += 1)
      await cluster.settle((await cluster.settle(waiter.redlock.acquire('a'))).release());
    expect(waiter.nodes[0]!.asked('acquire')).toHaveLength(3);
  });
});
