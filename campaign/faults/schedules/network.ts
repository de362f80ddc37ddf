import type { Evidence, Schedule, Script } from '../schedule.ts';
import {
  expectReplaced,
  forget,
  inOrder,
  links,
  NOTICED_MS,
  pairs,
  pause,
  some,
} from '../scripts.ts';
import type { ConnectionKind, LinkMode } from '../../../test/support/link.ts';
import { cutsNoticed, NO_IDLE_LIMIT, nobodyRefused, outageNoticed } from './evidence.ts';

// Networks that lose, delay, cut and garble, or silently forget connections. Each worker has its own way to each server.

const REPLIES = { direction: 'replies' } as const;
const HOLD: LinkMode = { kind: 'hold' };

/** Replies of two servers are cut off or garbled now and then, then of all. */
const damaged = (
  name: string,
  how: string,
  kind: 'truncate' | 'garbage',
  more: Partial<Schedule> = {},
): Schedule => ({
  name,
  what: `a fifth of the replies of two servers, then one in fifty of all, ${how}`,
  ...more,
  ...NO_IDLE_LIMIT,
  play: inOrder([
    some(2, links({ kind, probability: 0.2 }, 1_800)),
    some(5, links({ kind, probability: 0.02 }, 1_800)),
    pause(500),
  ]),
  withoutEffect: cutsNoticed(11),
});

const STOPS = 8;

const brokenNetwork: readonly Schedule[] = [
  {
    name: 'flap',
    what: 'connections to two servers are reset for 50 to 250 ms, again and again, never the same two',
    quick: true,
    // It waits until clients have come back, so that never more than two are away.
    play: inOrder([some(2, links({ kind: 'reset' }, [50, 250])), pause([550, 750])], 8),
  },
  {
    name: 'requests lost',
    what: 'two servers lose all requests for 1.5 s and then the connection, then two others',
    play: inOrder([some(2, links({ kind: 'lose', direction: 'requests' }, 1_500)), pause(500)], 2),
  },
  {
    name: 'replies lost',
    what: 'the same with replies',
    quick: true,
    play: inOrder([some(2, links({ kind: 'lose', ...REPLIES }, 1_500)), pause(500)], 2),
  },
  {
    name: 'replies of a majority lost',
    what: 'three servers do what they are asked, and no reply gets through for 1.2 s',
    play: inOrder([pause(500), some(3, links({ kind: 'lose', ...REPLIES }, 1_200)), pause(1_500)]),
    withoutEffect: outageNoticed,
  },
  {
    name: 'replies held and delivered late',
    what: 'all replies are held for 0.15 to 1.4 s and then delivered, again and again',
    quick: true,
    play: inOrder([
      pause(300),
      inOrder([some(5, links({ kind: 'hold', ...REPLIES }, [150, 1_400])), pause([20, 300])], 5),
      pause(1_200),
    ]),
  },
  {
    name: 'executed, reply lost',
    what: 'one after the other, connections break between a request and its reply, everywhere',
    play: inOrder(
      [
        some(1, (stage, nodes) =>
          stage.network.do({ type: 'reset-after-request', selection: { nodes } }),
        ),
        // It waits until clients have come back, so that never more than two are away.
        pause(200),
      ],
      30,
    ),
    withoutEffect: cutsNoticed(21),
  },
  {
    name: 'partitioned worker',
    what: 'one worker, and then another, reaches only two servers for 1.5 s; what it sent arrives later',
    quick: true,
    ...NO_IDLE_LIMIT,
    play: inOrder(
      [
        some(3, (stage, nodes) =>
          stage.links(HOLD, 1_500, { clients: [stage.random.pick([0, 1, 2, 3])], nodes }),
        ),
        pause(500),
      ],
      2,
    ),
  },
  {
    name: 'servers divided between workers',
    what: 'two workers reach only two servers, and the others only the other three, for 1.5 s; then the servers change sides; what was sent arrives later',
    load: { keys: 2, holdMs: [20, 200], setShare: 0 },
    ...NO_IDLE_LIMIT,
    play: pairs(async (stage, nodes) => {
      const others = [0, 1, 2, 3, 4].filter((index) => !nodes.includes(index));
      await Promise.all([
        stage.links(HOLD, 1_500, { clients: [0, 1], nodes: others }),
        stage.links(HOLD, 1_500, { clients: [2, 3], nodes }),
      ]);
    }, 500),
  },
  {
    name: 'slow near the node timeout',
    what: 'replies of all servers take 60 to 110 ms, at a node timeout of 100 ms',
    load: { holdMs: [0, 20] },
    ...NO_IDLE_LIMIT,
    play: inOrder([
      some(5, links({ kind: 'delay', ...REPLIES, minMs: 60, maxMs: 110 }, 4_500)),
      pause(500),
    ]),
  },
  {
    name: 'slow near the ttl',
    what: 'round trips of three workers take 0.1 to 0.3 s, at a node timeout of 0.33 s; the fourth is quick, and its clock so far ahead that theirs are always behind: three ballots of one attempt use up the ttl',
    quick: true,
    // Locks that are not extended end with their validity, and somebody waits for just that.
    load: { keys: 4, longShare: 0.9, unextendedShare: 0.85, setShare: 0 },
    options: { nodeTimeout: 330 },
    limits: { idleMs: undefined, nodeTimeoutMs: 330 },
    play: async (stage) => {
      await stage.workers[3]!.ask({ type: 'set-wall-clock', skewMs: 5_000 });
      await stage.links({ kind: 'delay', minMs: 50, maxMs: 150 }, 9_000, { clients: [0, 1, 2] });
      await stage.pause(500);
    },
  },
  {
    name: 'slow minority',
    what: 'replies of two servers take 0.3 to 0.9 s',
    play: inOrder([
      some(2, links({ kind: 'delay', ...REPLIES, minMs: 300, maxMs: 900 }, 3_500)),
      pause(1_000),
    ]),
  },
  damaged('replies cut off', 'ends in the middle with the connection', 'truncate'),
  damaged('garbage for replies', 'is random bytes', 'garbage', { quick: true }),
  {
    name: 'reconnect storm',
    what: 'all connections of all workers are reset each 0.15 to 0.4 s, ten times',
    quick: true,
    play: inOrder([
      pause(300),
      inOrder([(stage) => stage.network.do({ type: 'reset' }), pause([150, 400])], 10),
      pause(1_500),
    ]),
    withoutEffect: cutsNoticed(100),
  },
  {
    name: 'network process stopped',
    what: `the process of the network is stopped for 0.15 to 0.4 s, ${STOPS} times, as by a machine that is too busy: what it writes down of that itself is the only excuse`,
    quick: true,
    play: inOrder(
      [(stage) => stage.stopNetwork(stage.random.between(150, 400)), pause(500)],
      STOPS,
    ),
    withoutEffect: outageNoticed,
  },
];

const [FORGOTTEN, NOTICED] = ['hints are forgotten', 'it must have been noticed'] as const;

/** Median time that the only key was on its way from one process to another that already waited for it, between two marks. */
function medianHandOver(history: Evidence['history'], from: string, to: string): number {
  const askedAt = new Map<string, number>();
  const times: number[] = [];
  let isBetween = false;
  let released: { readonly process: string; readonly at: number } | undefined;
  for (const event of history) {
    if (event.type === 'mark') {
      const name = event.mark === 'note' ? event.text : event.mark;
      if (name === from || name === to) isBetween = name === from;
    } else if (event.type === 'asked') askedAt.set(event.process, event.at);
    else if (event.type === 'released') released = event;
    else if (event.type === 'granted' && released && isBetween) {
      const isHandedOver =
        event.process !== released.process && askedAt.get(event.process)! < released.at;
      if (isHandedOver) times.push(event.at - released.at);
    }
  }
  times.sort((a, b) => a - b);
  return times[times.length >> 1] ?? Infinity;
}

const note =
  (text: string): Script =>
  async (stage) =>
    stage.mark({ mark: 'note', text });

/** The connections of all workers to some servers, and then all of one worker; each is in use. */
const forgottenUnderLoad = (
  name: string,
  what: string,
  kinds: readonly ConnectionKind[],
): Schedule => ({
  name,
  what: `${what} is forgotten between all workers and two servers, then two others, then between one worker and all servers`,
  // A caller that receives no release waits until the lease could be over.
  ...(kinds.includes('hints') && NO_IDLE_LIMIT),
  play: inOrder([
    pairs((stage, nodes) => forget(kinds, { nodes: [...nodes] })(stage), 4_000),
    forget(kinds, { clients: [0] }),
    pause(NOTICED_MS),
    expectReplaced,
  ]),
  withoutEffect: cutsNoticed(16),
});

const forgottenFlows: readonly Schedule[] = [
  forgottenUnderLoad('command connections forgotten', 'the connection for votes', ['commands']),
  {
    name: 'subscriber connections forgotten',
    what: 'all subscriber connections are forgotten: 15 s later locks are handed over as quickly as before, and no call failed',
    load: {
      callers: 1,
      keys: 1,
      waitsMs: [20_000],
      holdMs: [100, 150],
      longShare: 0,
      unextendedShare: 0,
      setShare: 0,
      // A caller that let go is not the next one to ask.
      pauseMs: 1_000,
    },
    ...NO_IDLE_LIMIT,
    play: inOrder([
      pause(5_000),
      note(FORGOTTEN),
      forget(['hints']),
      pause(NOTICED_MS),
      note(NOTICED),
      pause(5_000),
      expectReplaced,
    ]),
    broken: (evidence) => {
      const before = medianHandOver(evidence.history, 'measuring', FORGOTTEN);
      const after = medianHandOver(evidence.history, NOTICED, 'measured');
      const isQuick = after <= 2 * before + 10;
      return nobodyRefused(evidence) ?? (isQuick ? undefined : `took ${before}, then ${after} ms`);
    },
  },
  forgottenUnderLoad('all connections forgotten', 'every connection', ['commands', 'hints']),
  {
    name: 'rare callers, connections forgotten',
    what: 'each process tries a free lock once in 16 s; in between all its connections are forgotten while they are idle',
    load: { callers: 0 },
    ...NO_IDLE_LIMIT,
    play: async (stage) => {
      for (let round = 0; round < 3; round += 1) {
        if (round > 0) await forget(['commands', 'hints'])(stage);
        if (round > 0) await stage.pause(NOTICED_MS + 1_000);
        await stage.everyWorker((worker) =>
          worker.ask({ type: 'use', key: `rare-${worker.place}`, waitMs: 0 }),
        );
      }
      await expectReplaced(stage);
    },
    broken: nobodyRefused,
  },
];

export const networkSchedules: readonly Schedule[] = [...brokenNetwork, ...forgottenFlows];
