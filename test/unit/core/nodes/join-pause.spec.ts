import { beforeEach, describe, expect, it } from '@jest/globals';
import type { VoteReply } from '../../../../lib/core/nodes/lock-node.ts';
import { NodeNames } from '../../../../lib/core/nodes/node-names.ts';
import { scriptedSet } from '../support/scripted-node.ts';

const UNJOINED = { kind: 'unjoined' };
const JOINED = { kind: 'joined', quarantineMs: 0 };
const names = new NodeNames('lock:', ['a']);

let world: ReturnType<typeof scriptedSet>;

beforeEach(() => {
  world = scriptedSet();
  world.environment.random.fraction = () => 1;
  world.connect();
});

/** Asks for a vote now; `replies` are what the asker receives. */
function ask(kind: 'acquire' | 'extend' = 'acquire'): VoteReply[] {
  const replies: VoteReply[] = [];
  const vote = { kind, names, holder: 'holder', ballot: 1, ttlMs: 3_000 };
  const collect = (_: number, reply: VoteReply) => void replies.push(reply);
  world.set.sessions[0]!.ask({ vote, ended: false, collect }, world.set.nowMs);
  return replies;
}

const isAsked = (name: string) => world.node.waiting.some((command) => command.name === name);
const types = () => world.events.map(({ type }) => type).filter((type) => type.startsWith('node-'));

/** The pauses before joins for so long, of a node that answers every vote like this. */
async function pauses(ms: number, answer: object = UNJOINED): Promise<number[]> {
  const { set, node, environment } = world;
  const found: number[] = [];
  let forgotAtMs = set.nowMs;
  for (const untilMs = set.nowMs + ms; set.nowMs < untilMs; await environment.advance(1)) {
    if (set.sessions[0]!.state === 'voting' && !isAsked('acquire')) ask();
    while (isAsked('acquire')) {
      forgotAtMs = set.nowMs;
      node.answer('acquire', answer);
      if (answer !== UNJOINED) return found;
    }
    if (isAsked('join')) {
      found.push(set.nowMs - forgotAtMs);
      node.answer('join', JOINED);
    }
  }
  return found;
}

describe('a node that forgets that it was joined', () => {
  it('is joined at once the first time, and then after pauses that grow to five seconds', async () => {
    const expected = [0, 50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000];
    expect((await pauses(25_000)).slice(0, 10)).toEqual(expected);
  });

  it('has no vote in a pause: nobody waits for it', async () => {
    await pauses(1);
    const votes = [ask(), ask()];
    while (isAsked('acquire')) world.node.answer('acquire', UNJOINED);
    const forgets = /^has to be joined again, because .*maxmemory-policy/;
    const refusal = { reason: 'unreachable', message: expect.stringMatching(forgets) };
    expect([...votes, ask()]).toMatchObject([[refusal], [refusal], [refusal]]);
    expect([world.set.sessions[0]!.state, isAsked('join')]).toEqual(['joining', false]);
  });

  it('is reported as left, as failing while that goes on, and as joined when it votes', async () => {
    await pauses(60_000);
    const story = ['node-joined', 'node-left', 'node-joined', 'node-left', 'node-failing'];
    expect(types()).toEqual(story);
    expect(world.events[1]).toMatchObject({ message: 'has to be joined again' });
    for (const [at, name] of [
      [3, 'message'],
      [4, 'reason'],
    ] as const)
      expect(world.events[at]).toMatchObject({
        [name]: expect.stringContaining('(set noeviction)'),
      });
    await pauses(6_000, { kind: 'accepted' });
    expect(types()).toEqual([...story, 'node-joined']);
  });
});
