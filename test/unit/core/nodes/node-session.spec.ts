import { beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireRequest, VoteReply } from '../../../../lib/core/nodes/lock-node.ts';
import { NodeNames } from '../../../../lib/core/nodes/node-names.ts';
import type { NodeSession } from '../../../../lib/core/nodes/node-session.ts';
import { scriptedSet } from '../support/scripted-node.ts';
import type { ScriptedNode } from '../support/scripted-node.ts';

const JOINED = { kind: 'joined', quarantineMs: 0 };
const ACCEPTED = { kind: 'accepted' };
const EXTENDED = { kind: 'extended', recreated: 0 };
const HELD = { kind: 'held', index: 0, remainingMs: 5, floor: 0, holder: 'other' };
const failed = (reason: string, message = reason) => ({
  kind: 'failed',
  reason,
  message,
  nothingWritten: true,
});
const OOM = failed('error', 'OOM command not allowed');
const names = new NodeNames('lock:', ['a']);

let world: ReturnType<typeof scriptedSet>;
let node: ScriptedNode;
let session: NodeSession;

beforeEach(() => {
  world = scriptedSet();
  node = world.node;
  session = world.set.sessions[0]!;
  world.set.open();
});

/** Asks for a vote now; `replies` are what it receives. */
function ask(holder = 'holder', kind: 'acquire' | 'extend' = 'acquire') {
  const replies: VoteReply[] = [];
  const vote = {
    vote: { kind, names, holder, ballot: 1, ttlMs: 3_000 },
    ended: false,
    replies,
    collect: (_: number, reply: VoteReply) => void replies.push(reply),
  };
  session.ask(vote, world.set.nowMs);
  return vote;
}

/** Asks for votes, each answered at once. */
function votes(...answers: object[]): void {
  for (const answer of answers) {
    ask();
    node.answer('acquire', answer);
  }
}

/** Asks for extensions, each answered at once. */
function extensions(...answers: object[]): void {
  for (const answer of answers) {
    ask('holder', 'extend');
    node.answer('extend', answer);
  }
}

function connect(): void {
  node.listener.opened();
  node.answer('join', JOINED);
}

const release = (holder: string) =>
  session.release({ names, holder, granted: true, pass: true }, 3_000, world.set.nowMs);
const types = () => world.events.map(({ type }) => type).filter((type) => type.startsWith('node-'));
const advance = (ms: number) => world.environment.advance(ms);
const unreachable = (message: string) => [failed('unreachable', message)];

describe('a session', () => {
  it('is down, then joining, and votes only when the node was joined on that very connection', async () => {
    expect([session.state, ask().replies]).toEqual(['down', unreachable('not connected yet')]);
    node.listener.unreachable!('ECONNREFUSED');
    expect(ask().replies).toEqual(unreachable('ECONNREFUSED'));
    node.listener.opened();
    expect([session.state, ask().replies.length]).toEqual(['joining', 1]);
    expect(node.waiting[0]?.request).toEqual(node.settings.join);
    node.answer('join', JOINED);
    const vote = ask();
    node.answer('acquire', ACCEPTED);
    expect([session.state, vote.replies]).toEqual(['voting', [ACCEPTED]]);
    node.listener.unreachable!('another address');
    node.listener.closed('ECONNRESET');
    expect([session.state, ask().replies]).toEqual(['down', unreachable('ECONNRESET')]);
    connect();
    await session.close();
    node.listener.closed('closed');
    expect([session.state, node.isClosed, ask().replies.length]).toEqual(['closed', true, 1]);
    expect(types()).toEqual(['node-joined', 'node-left', 'node-joined']);
  });

  it('ignores what is answered on an earlier connection, but passes it on to the asker', () => {
    connect();
    const vote = ask();
    node.listener.closed('lost');
    node.listener.opened();
    node.answer('acquire', { kind: 'unjoined' });
    expect([vote.replies, session.state]).toEqual([[{ kind: 'unjoined' }], 'joining']);
    node.listener.closed('lost');
    node.answer('join', JOINED);
    expect([session.state, node.story]).toEqual(['down', ['join', 'acquire', 'join']]);
  });
});

describe('a join that fails', () => {
  /** The gaps between joins from now on, each of them refused at once. */
  async function gaps(ms: number): Promise<number[]> {
    const times: number[] = [];
    const untilMs = world.set.nowMs + ms;
    for (; world.set.nowMs < untilMs; await advance(1)) {
      if (!node.waiting.some(({ name }) => name === 'join')) continue;
      times.push(world.set.nowMs);
      node.answer('join', OOM);
    }
    return times.slice(1).map((atMs, index) => atMs - times[index]!);
  }
  const chance = (fraction: number) => (world.environment.random.fraction = () => fraction);

  it.each([
    [1, [50, 100, 200, 400, 800, 1_000, 1_000]],
    [0.5, [25, 50, 100, 200, 400, 500, 500]],
  ])('is repeated after pauses that grow to a second, by chance (%d)', async (fraction, pauses) => {
    chance(fraction);
    node.listener.opened();
    expect((await gaps(4_000)).slice(0, 7)).toEqual(pauses);
    expect(ask().replies).toEqual(unreachable(`join failed: ${OOM.message}`));
  });

  it('starts with short pauses again only after a join that was followed by a vote', async () => {
    chance(1);
    node.listener.opened();
    await gaps(4_000);
    for (const vote of [false, true]) {
      node.listener.closed('lost');
      connect();
      if (vote) votes(ACCEPTED);
      node.listener.closed('lost');
      node.listener.opened();
      expect((await gaps(2_500)).slice(0, 2)).toEqual(vote ? [50, 100] : [1_000, 1_000]);
    }
  });

  it('is not repeated on a connection that has closed, or after the end', async () => {
    node.listener.opened();
    node.answer('join', OOM);
    node.listener.closed('lost');
    await advance(2_000);
    node.listener.opened();
    node.answer('join', OOM);
    await session.close();
    await advance(2_000);
    await world.set.close();
    expect([node.story, world.environment.pendingTimers]).toEqual([['join', 'join'], 0]);
  });

  it('names the versions of the protocol that are in use as the reason', () => {
    node.listener.opened();
    node.answer('join', { kind: 'disagree', versions: [2, 3], floorRetentionMs: 5_000 });
    const message = /2 to 3 .*5 s.* 1 to 1 .*600 s/;
    expect(ask().replies).toMatchObject([{ message: expect.stringMatching(message) }]);
  });
});

describe.each([{ kind: 'unjoined' }, { ...failed('error', 'NOSCRIPT'), mustJoin: true }])(
  'votes that are answered with %p',
  (answer) => {
    beforeEach(connect);

    it('are asked once more after one join, unless they ended meanwhile, and after kept releases', () => {
      const [first, second, ended] = ['first', 'second', 'ended'].map((holder) => ask(holder));
      for (const _ of [1, 2, 3]) node.answer('acquire', answer);
      ended!.ended = true;
      release('earlier');
      node.answer('release', failed('unreachable'));
      expect(node.waiting.map(({ name }) => name)).toEqual(['join']);
      expect(ask().replies).toEqual(unreachable('has to be joined again'));
      node.answer('join', JOINED);
      const holders = node.waiting.map(({ request }) => (request as AcquireRequest).holder);
      expect(holders).toEqual(['earlier', 'first', 'second']);
      node.answer('acquire', ACCEPTED);
      node.answer('acquire', answer);
      const replies = [first, second, ended].map((vote) => vote!.replies);
      expect(replies).toEqual([[ACCEPTED], [answer], []]);
      expect(types()).toEqual(['node-joined', 'node-left', 'node-joined', 'node-left']);
    });

    it.each([
      ['the join fails', () => node.answer('join', OOM), `join failed: ${OOM.message}`],
      ['the connection closes', () => node.listener.closed('lost'), 'lost'],
      ['the session is closed', () => void session.close(), 'closed'],
    ])('are refused when %s', (_, end, message) => {
      const vote = ask();
      node.answer('acquire', answer);
      expect(vote.replies).toEqual([]);
      end();
      expect(vote.replies).toEqual(unreachable(message));
    });
  },
);

describe('a node whose answer is overdue', () => {
  beforeEach(connect);

  it('is silent after a node timeout, until any answer comes', async () => {
    const silentAfter = async (...steps: number[]) => {
      const seen: boolean[] = [];
      for (const ms of steps) {
        await advance(ms);
        seen.push(session.isSilent);
      }
      return seen;
    };
    ask();
    expect(await silentAfter(299)).toEqual([false]);
    ask();
    expect(await silentAfter(1)).toEqual([true]);
    node.answer('acquire', OOM);
    expect(await silentAfter(0, 299, 1)).toEqual([false, false, true]);
    node.answer('acquire', ACCEPTED);
    expect(await silentAfter(5_000)).toEqual([false]);
    expect(world.environment.pendingTimers).toBe(0);
  });

  it('is not silent because of a vote that was withdrawn, or of a connection that has closed', async () => {
    const { vote } = ask();
    expect(session.withdraw(vote)).toBe(false);
    node.hasCollected = true;
    expect(session.withdraw(vote)).toBe(true);
    await advance(1_000);
    ask();
    node.listener.closed('lost');
    connect();
    await advance(1_000);
    expect(session.isSilent).toBe(false);
  });

  it('gets no more votes above 64 open ones, but releases', async () => {
    for (let open = 0; open < 70; open += 1) ask();
    await advance(300);
    expect(ask().replies).toEqual([failed('overloaded', '64 earlier requests are unanswered')]);
    release('mine');
    expect(node.waiting.at(-1)?.name).toBe('release');
    for (let open = 70; open > 63; open -= 1) node.answer('acquire', ACCEPTED);
    await advance(300);
    expect([session.isSilent, ask().replies, ask().replies.length]).toEqual([true, [], 1]);
  });
});

describe('a node that does not vote', () => {
  beforeEach(connect);

  it('is reported as failing after three refusals in a row, once, and as joined when it votes', () => {
    votes(OOM, OOM, ACCEPTED, OOM, OOM, ACCEPTED, OOM, failed('overloaded'), OOM);
    votes(failed('unreachable'));
    expect(types()).toEqual(['node-joined']);
    votes(OOM, OOM, OOM, ACCEPTED);
    expect(types()).toEqual(['node-joined', 'node-failing', 'node-joined']);
    expect(world.events[1]).toMatchObject({ address: 'node0:6379', reason: OOM.message });
  });

  it('is failing until it accepts: answers that need no memory prove nothing', () => {
    const readOnly = [HELD, { kind: 'quarantined', remainingMs: 5 }];
    for (let round = 0; round < 5; round += 1) {
      extensions(EXTENDED, { kind: 'lost' });
      votes(OOM, ...readOnly);
    }
    expect(types()).toEqual(['node-joined', 'node-failing']);
    extensions(EXTENDED);
    votes(ACCEPTED, ...readOnly);
    expect(types()).toEqual(['node-joined', 'node-failing', 'node-joined']);
  });

  it.each([
    ['an extension', () => extensions(EXTENDED)],
    ['a new lock', () => votes(ACCEPTED)],
  ])('is reported for refused extensions as well, and as joined after %s', (_, recover) => {
    votes(OOM, OOM);
    extensions(OOM, OOM, EXTENDED, OOM, OOM, { kind: 'lost' }, OOM, OOM);
    recover();
    extensions(OOM, OOM);
    expect(types()).toEqual(['node-joined', 'node-failing', 'node-joined']);
  });

  it('is reported as joined, not as left, when it is failing and a new connection is joined', () => {
    votes(OOM, OOM, OOM);
    node.listener.closed('lost');
    connect();
    votes(OOM, OOM);
    expect(types()).toEqual(['node-joined', 'node-failing', 'node-joined']);
  });

  it.each([
    ['while others answered', true],
    ['when no other one answered either', false],
  ])('is reported for its silence after three whole timeouts %s', async (_, othersAnswer) => {
    ask();
    const seen: number[] = [];
    for (let timeouts = 1; timeouts <= 5; timeouts += 1) {
      await advance(299);
      if (othersAnswer) world.set.lastQuorumAtMs = world.set.nowMs;
      await advance(1);
      seen.push(types().length);
    }
    expect(seen).toEqual([1, 1, 2, 2, 2]);
    const reason = `no answer within the node timeout (300 ms)${othersAnswer ? ' while others answered' : ''}`;
    expect(world.events[1]).toMatchObject({ type: 'node-failing', reason });
  });

  it('is reported when its connection is silent although no caller asks for votes, and when it speaks again', async () => {
    for (const _again of [1, 2]) node.listener.stalled!();
    expect([types()[1], session.isSilent]).toEqual(['node-failing', true]);
    expect(world.set.outageAtMs).toBe(world.set.nowMs);
    const late = ask();
    node.listener.spoke!();
    expect([types().length, session.isSilent]).toEqual([2, true]);
    node.answer('acquire', OOM);
    for (const tell of ['stalled', 'spoke'] as const) node.listener[tell]!();
    expect([late.replies, session.isSilent]).toEqual([[OOM], false]);
    expect(types().slice(1)).toEqual(['node-failing', 'node-joined']);
    expect(world.set.outageAtMs).toBe(Number.NEGATIVE_INFINITY);
    votes(OOM, OOM);
    for (const tell of ['stalled', 'spoke', 'spoke'] as const) node.listener[tell]!();
    node.listener.closed('lost');
    for (const tell of ['stalled', 'spoke'] as const) node.listener[tell]!();
    expect([types().slice(3), session.isSilent]).toEqual([['node-failing'], false]);
  });

  it('is not reported for timeouts with an answer in time between them', async () => {
    for (const _timeout of [1, 2, 3, 4, 5]) {
      ask();
      await advance(350);
      node.answer('acquire', ACCEPTED);
      votes(HELD);
    }
    expect(types()).toEqual(['node-joined']);
  });

  it('is not called silent by a process that did not read its answers', async () => {
    for (let block = 0; block < 10; block += 1) {
      ask();
      world.environment.skip(700);
      // It is in the socket, and the next poll finds it.
      setImmediate(() => node.answer('acquire', ACCEPTED));
      await advance(100);
    }
    expect(types()).toEqual(['node-joined']);
  });
});

describe('a node that is away', () => {
  it.each([
    ['was never there', () => undefined, []],
    ['left', () => (connect(), node.listener.closed('ECONNRESET')), ['node-joined', 'node-left']],
    [
      'can not be joined again',
      () => {
        connect();
        votes({ kind: 'unjoined' });
        node.answer('join', failed('error', 'NOPERM'));
      },
      ['node-joined', 'node-left'],
    ],
  ])('is reported as failing after 2 s, once and with the reason, when it %s', async (...test) => {
    const [, begin, before] = test;
    begin();
    node.listener.unreachable!('NOAUTH Authentication required.');
    await advance(1_990);
    expect(types()).toEqual(before);
    await advance(60_000);
    node.listener.unreachable!('ECONNREFUSED');
    expect(types()).toEqual([...before, 'node-failing']);
    const reason = expect.stringMatching(/NOAUTH|NOPERM/);
    expect(world.events).toContainEqual(expect.objectContaining({ type: 'node-failing', reason }));
    node.listener.opened();
    node.answer('join', OOM);
    node.listener.closed('ECONNRESET');
    connect();
    expect(types()).toEqual([...before, 'node-failing', 'node-joined']);
  });

  it('is not reported as failing when it comes back soon, or when only this process did not run', async () => {
    world.environment.skip(5_000);
    await advance(1_000);
    connect();
    for (let restart = 0; restart < 5; restart += 1) {
      node.listener.closed('ECONNRESET');
      await advance(1_900);
      connect();
      await advance(10_000);
    }
    node.listener.closed('ECONNRESET');
    world.environment.skip(5_000);
    await advance(1_000);
    await session.close();
    await advance(10_000);
    expect(types()).not.toContain('node-failing');
  });
});
