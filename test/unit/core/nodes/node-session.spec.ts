import { beforeEach, describe, expect, it } from '@jest/globals';
import type { AcquireRequest } from '../../../../lib/core/nodes/lock-node.ts';
import { lockNames } from '../../../../lib/core/nodes/node-names.ts';
import type {
  NodeSession,
  VoteCollector,
  VoteReply,
} from '../../../../lib/core/nodes/node-session.ts';
import { processFactory } from '../support/cluster.ts';
import type { ScriptedNode } from '../support/scripted-node.ts';
import { scriptedSet } from '../support/scripted-node.ts';

const JOINED = { kind: 'joined', quarantineMs: 0 };
const ACCEPTED = { kind: 'accepted' };
const UNJOINED = { kind: 'unjoined' };
const failed = (reason: string, message = reason, nothingWritten = true) => ({
  kind: 'failed',
  reason,
  message,
  nothingWritten,
});
const OOM = failed('error', 'OOM command not allowed');
const names = lockNames('lock:', ['a']);

class Vote implements VoteCollector {
  ended = false;
  readonly replies: VoteReply[] = [];
  readonly vote: { readonly kind: 'acquire'; readonly request: AcquireRequest };

  constructor(holder = 'holder') {
    this.vote = { kind: 'acquire', request: { names, holder, ballot: 1, ttlMs: 3_000 } };
  }

  collect(_: number, reply: VoteReply): void {
    this.replies.push(reply);
  }
}

let world: ReturnType<typeof scriptedSet>;
let node: ScriptedNode;
let session: NodeSession;

beforeEach(() => {
  world = scriptedSet();
  node = world.node;
  session = world.set.sessions[0]!;
  world.set.open();
});

/** Asks for a vote now. */
function ask(holder?: string): Vote {
  const vote = new Vote(holder);
  session.ask(vote, world.set.nowMs);
  return vote;
}

function connect(): void {
  node.listener.opened();
  node.answer('join', JOINED);
}

const release = (holder: string) =>
  session.release({ names, holder, granted: true, notify: true }, 3_000, () => undefined);
const types = () => world.events.map(({ type }) => type);
const advance = (ms: number) => world.environment.advance(ms);

describe('a session', () => {
  it('is down, then joining, and votes only when the node was joined on that very connection', async () => {
    const refusal = (message: string) => [failed('unreachable', message)];
    expect([session.state, ask().replies]).toEqual(['down', refusal('not connected yet')]);
    node.listener.unreachable!('ECONNREFUSED');
    expect(ask().replies).toEqual(refusal('ECONNREFUSED'));
    node.listener.opened();
    expect([session.state, ask().replies.length]).toEqual(['joining', 1]);
    expect(node.waiting[0]?.request).toEqual(node.settings.join);
    node.answer('join', JOINED);
    const vote = ask();
    node.answer('acquire', ACCEPTED);
    expect([session.state, vote.replies]).toEqual(['voting', [ACCEPTED]]);
    node.listener.unreachable!('another address');
    node.listener.closed('ECONNRESET');
    expect([session.state, ask().replies]).toEqual(['down', refusal('ECONNRESET')]);
    connect();
    await session.close();
    node.listener.closed('closed');
    expect([session.state, node.isClosed, ask().replies.length]).toEqual(['closed', true, 1]);
    expect(types()).toEqual(['node-joined', 'node-left', 'node-joined']);
  });

  it('ignores what is answered on an earlier connection, but tells who asked', () => {
    connect();
    const vote = ask();
    node.listener.closed('lost');
    node.listener.opened();
    node.answer('acquire', UNJOINED);
    expect([
      vote.replies,
      session.state,
      node.story.filter((name) => name === 'join').length,
    ]).toEqual([[UNJOINED], 'joining', 2]);
    node.listener.closed('lost');
    node.answer('join', JOINED);
    expect(session.state).toBe('down');
  });

  it('passes hints on', () => {
    const hints: unknown[] = [];
    const listening = scriptedSet({}, { hint: (...hint) => void hints.push(hint) });
    listening.set.open();
    listening.node.listener.hint('lock:a', 'holder');
    expect(hints).toEqual([['lock:a', 'holder']]);
  });
});

describe('a join that fails', () => {
  /** When joins were asked from now on, each of them refused at once. */
  async function joinTimes(ms: number): Promise<number[]> {
    const { environment, set } = world;
    const times: number[] = [];
    const untilMs = set.nowMs + ms;
    while (set.nowMs < untilMs) {
      if (node.waiting.some(({ name }) => name === 'join')) {
        times.push(set.nowMs);
        node.answer('join', OOM);
      }
      await environment.advance(1);
    }
    return times;
  }
  const gaps = (times: readonly number[]) =>
    times.slice(1).map((atMs, index) => atMs - times[index]!);
  const chance = (fraction: number) => (world.environment.random.fraction = () => fraction);

  it.each([
    [1, [50, 100, 200, 400, 800, 1_000, 1_000]],
    [0.5, [25, 50, 100, 200, 400, 500, 500]],
  ])(
    'is asked again after pauses that grow to a second, by chance (%d)',
    async (fraction, pauses) => {
      chance(fraction);
      node.listener.opened();
      expect(gaps(await joinTimes(4_000)).slice(0, 7)).toEqual(pauses);
      expect(ask().replies).toEqual([failed('unreachable', `join failed: ${OOM.message}`)]);
    },
  );

  it('starts with short pauses again only after a join that was followed by a vote', async () => {
    chance(1);
    node.listener.opened();
    await joinTimes(4_000);
    node.listener.closed('lost');
    connect();
    node.listener.closed('lost');
    node.listener.opened();
    expect(gaps(await joinTimes(2_500))).toEqual([1_000, 1_000]);
    node.listener.closed('lost');
    connect();
    ask();
    node.answer('acquire', ACCEPTED);
    node.listener.closed('lost');
    node.listener.opened();
    expect(gaps(await joinTimes(200))).toEqual([50, 100]);
  });

  it('is not asked again on a connection that has closed, or after the end', async () => {
    node.listener.opened();
    node.answer('join', OOM);
    node.listener.closed('lost');
    await advance(2_000);
    node.listener.opened();
    node.answer('join', OOM);
    await session.close();
    await advance(2_000);
    expect(node.story).toEqual(['join', 'join']);
    await world.set.close();
    expect(world.environment.pendingTimers).toBe(0);
  });

  it('names another retention of floors in use as the reason', () => {
    node.listener.opened();
    node.answer('join', { kind: 'disagree', floorRetentionMs: 5 });
    expect(ask().replies[0]).toMatchObject({
      message: expect.stringMatching(/floors for 5 ms, this one for 600000 ms: use one version/),
    });
  });
});

describe.each([UNJOINED, { ...failed('error', 'NOSCRIPT'), mustJoin: true }])(
  'votes that are answered with %p',
  (answer) => {
    beforeEach(connect);

    it('are asked once more after one join, unless they ended meanwhile, and after kept releases', () => {
      const [first, second, ended] = ['first', 'second', 'ended'].map(ask);
      for (const _ of [1, 2, 3]) node.answer('acquire', answer);
      ended!.ended = true;
      release('earlier');
      node.answer('release', failed('unreachable'));
      expect([node.waiting.map(({ name }) => name), ask().replies]).toEqual([
        ['join'],
        [failed('unreachable', 'has to be joined again')],
      ]);
      node.answer('join', JOINED);
      const holders = node.waiting.map(({ request }) => (request as AcquireRequest).holder);
      expect(holders).toEqual(['earlier', 'first', 'second']);
      node.answer('acquire', ACCEPTED);
      node.answer('acquire', answer);
      expect([first, second, ended].map((vote) => vote!.replies)).toEqual([
        [ACCEPTED],
        [answer],
        [],
      ]);
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
      expect(vote.replies).toEqual([failed('unreachable', message)]);
    });
  },
);

describe('a node whose answer is overdue', () => {
  beforeEach(connect);

  it('is silent after a node timeout, until any answer comes', async () => {
    ask();
    await advance(299);
    expect(session.isSilent).toBe(false);
    ask();
    await advance(1);
    expect(session.isSilent).toBe(true);
    node.answer('acquire', OOM);
    expect(session.isSilent).toBe(false);
    await advance(299);
    expect(session.isSilent).toBe(false);
    await advance(1);
    expect(session.isSilent).toBe(true);
    node.answer('acquire', ACCEPTED);
    await advance(5_000);
    expect([session.isSilent, world.environment.pendingTimers]).toEqual([false, 0]);
  });

  it('is not silent because of a vote that was withdrawn, or of a connection that has closed', async () => {
    const vote = ask();
    expect(session.withdraw(vote.vote)).toBe(false);
    node.hasCollected = true;
    expect(session.withdraw(vote.vote)).toBe(true);
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

  /** Asks for votes, each answered at once. */
  function votes(...answers: object[]): void {
    for (const answer of answers) {
      ask();
      node.answer('acquire', answer);
    }
  }

  it('is reported as failing after three refusals in a row, once, and as joined when it votes', () => {
    const held = { kind: 'held', index: 0, remainingMs: 5, floor: 0, holder: 'other' };
    votes(OOM, OOM, held, OOM, OOM, ACCEPTED, OOM, OOM, { kind: 'quarantined', remainingMs: 5 });
    votes(OOM, failed('overloaded'), OOM, failed('unreachable'));
    expect(types()).toEqual(['node-joined']);
    votes(OOM, OOM, OOM, held, ACCEPTED);
    expect(types()).toEqual(['node-joined', 'node-failing', 'node-joined']);
    expect(world.events[1]).toMatchObject({ address: 'node0:6379', reason: OOM.message });
  });

  it('is reported as joined, not as left, when it is failing and a new connection is joined', () => {
    votes(OOM, OOM, OOM);
    node.listener.closed('lost');
    connect();
    expect(types()).toEqual(['node-joined', 'node-failing', 'node-joined']);
    votes(OOM, OOM);
    expect(types()).toHaveLength(3);
  });

  it.each([
    ['after three whole timeouts while others answered', true, ['node-joined', 'node-failing']],
    ['never while no other one answered either', false, ['node-joined']],
  ])('for its slowness is reported %s', async (_, othersAnswer, expected) => {
    ask();
    for (let timeout = 0; timeout < 10; timeout += 1) {
      expect(timeout < 3 || !othersAnswer ? types() : ['node-joined']).toEqual(['node-joined']);
      await advance(299);
      if (othersAnswer) world.set.lastQuorumAtMs = world.set.nowMs;
      await advance(1);
    }
    expect(types()).toEqual(expected);
  });
});

describe('a node of a cluster', () => {
  const newProcess = processFactory();

  it('votes in the same round after it was joined again', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    for (const server of cluster.servers) server.flush();
    await cluster.settle(redlock.acquire('a', { wait: 0 }));
    for (const { commands } of nodes)
      expect(commands.map(({ name }) => name).slice(1)).toEqual(['acquire', 'join', 'acquire']);
  });

  it.each(['vote', 'extension'])(
    'that is joined again gets no %s after the release of its lock',
    async (kind) => {
      const { cluster, redlock, nodes } = await newProcess();
      const early = kind === 'vote' ? undefined : await cluster.settle(redlock.acquire('a'));
      await cluster.advance(100);
      cluster.servers[2]?.forgetScripts();
      nodes[0]!.latencyMs = nodes[1]!.latencyMs = 10;
      const done = early === undefined ? redlock.acquire('a') : early.extend().then(() => early);
      // NOSCRIPT comes at once, and then the join takes longer than the whole lock is held.
      await cluster.advance(1.5);
      nodes[2]!.latencyMs = 100;
      const lock = await cluster.settle(done);
      expect(nodes[2]?.asked('join')).toHaveLength(2);
      await cluster.settle(lock.release());
      await cluster.advance(500);
      expect(cluster.holders('a')).toBe(0);
    },
  );

  it('that froze is not waited for once an answer is overdue, but asked, and counts again', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    cluster.servers[2]?.freeze();
    cluster.occupy('held', [0, 1], 60_000);
    await cluster.failure(redlock.acquire('held', { wait: 0 }));
    await cluster.advance(400);
    cluster.occupy('split', [0], 60_000);
    const startedAtMs = cluster.nowMs;
    await cluster.failure(redlock.acquire('split', { wait: 0 }));
    expect([cluster.nowMs - startedAtMs, nodes[2]?.asked('acquire').length]).toEqual([2, 2]);
    cluster.servers[2]?.resume();
    await cluster.advance(10);
    await cluster.settle(redlock.acquire('split', { wait: 0 }));
    expect(cluster.holders('split')).toBe(3);
  });
});
