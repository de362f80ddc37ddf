import type { LinkCounts } from '../network/link-counts.ts';
import type { LinkMode } from '../network/link-mode.ts';
import type { Evidence, Schedule } from '../run/schedule.ts';
import { outageNoticed } from './servers-away.ts';

// Networks that lose, delay, cut and garble. Each worker has its own way to each server.

/** Says so when less than `least` of something happened. */
export const atLeast =
  (least: number, ...names: (keyof LinkCounts)[]) =>
  ({ network }: Evidence): string | undefined => {
    const count = names.reduce((sum, name) => sum + network[name], 0);
    return count < least ? `${names.join(' and ')}: ${count}, not ${least}` : undefined;
  };

const STOPS = 8;
const LOSE_REPLIES: LinkMode = { kind: 'lose', direction: 'replies' };

/** Two servers (and then two others) lose what goes one way. */
function oneWay(direction: 'requests' | 'replies', more: Partial<Schedule> = {}): Schedule {
  return {
    name: `${direction} lost`,
    what: `two servers lose all ${direction} for 1.5 s and then the connection, then two others`,
    ...more,
    async play(stage) {
      for (let round = 0; round < 2; round += 1) {
        await stage.links({ kind: 'lose', direction }, 1_500, { nodes: stage.someServers(2) });
        await stage.pause(500);
      }
    },
    withoutEffect: atLeast(1, 'lostChunks'),
  };
}

/** Replies of two servers are cut off or garbled now and then, then of all. */
function damaged(
  name: string,
  how: string,
  kind: 'truncate' | 'garbage',
  more: Partial<Schedule> = {},
): Schedule {
  return {
    name,
    what: `a fifth of the replies of two servers, then one in fifty of all, ${how}`,
    ...more,
    limits: { idleMs: undefined },
    async play(stage) {
      await stage.links({ kind, probability: 0.2 }, 1_800, { nodes: stage.someServers(2) });
      await stage.links({ kind, probability: 0.02 }, 1_800);
      await stage.pause(500);
    },
    withoutEffect: atLeast(11, 'truncatedChunks', 'garbledChunks'),
  };
}

export const brokenNetworkSchedules: readonly Schedule[] = [
  {
    name: 'flap',
    what: 'connections to two servers are refused for 50 to 250 ms, again and again, never the same two',
    quick: true,
    async play(stage) {
      for (let round = 0; round < 8; round += 1) {
        const nodes = stage.someServers(2);
        await stage.links({ kind: 'refuse' }, stage.random.between(50, 250), { nodes });
        // Waits until clients have come back, so that never more than two are away.
        await stage.pause(stage.random.between(550, 750));
      }
    },
  },
  oneWay('requests'),
  oneWay('replies', { quick: true }),
  {
    name: 'replies of a majority lost',
    what: 'three servers do what they are asked, and no reply gets through for 1.2 s',
    async play(stage) {
      await stage.pause(500);
      await stage.links(LOSE_REPLIES, 1_200, { nodes: stage.someServers(3) });
      await stage.pause(1_500);
    },
    withoutEffect: atLeast(1, 'lostChunks'),
  },
  {
    name: 'replies held and delivered late',
    what: 'all replies are held for 0.15 to 1.4 s and then delivered, again and again',
    quick: true,
    async play(stage) {
      await stage.pause(300);
      for (let round = 0; round < 5; round += 1) {
        const durationMs = stage.random.between(150, 1_400);
        await stage.links({ kind: 'hold', direction: 'replies' }, durationMs);
        await stage.pause(stage.random.between(20, 300));
      }
      await stage.pause(1_200);
    },
    withoutEffect: atLeast(1, 'heldChunks'),
  },
  {
    name: 'executed, reply lost',
    what: 'one after the other, connections break between a request and its reply, everywhere',
    async play(stage) {
      for (let round = 0; round < 30; round += 1) {
        await stage.network.resetAfterRequest({ nodes: stage.someServers(1) });
        // Waits until clients have come back, so that never more than two are away.
        await stage.pause(200);
      }
    },
    withoutEffect: atLeast(21, 'resets'),
  },
  {
    name: 'partitioned worker',
    what: 'one worker, and then another, reaches only two servers for 1.5 s; what it sent arrives later',
    quick: true,
    limits: { idleMs: undefined },
    async play(stage) {
      for (let round = 0; round < 2; round += 1) {
        const clients = [stage.random.pick([0, 1, 2, 3])];
        const nodes = stage.someServers(3);
        await stage.links({ kind: 'hold', direction: 'both' }, 1_500, { clients, nodes });
        await stage.pause(500);
      }
    },
    withoutEffect: atLeast(1, 'heldChunks'),
  },
  {
    name: 'servers divided between workers',
    what: 'two workers reach only two servers, and the others only the other three, for 1.5 s; then the servers change sides; what was sent arrives later',
    load: { keys: 2, holdMs: [20, 200], setShare: 0 },
    limits: { idleMs: undefined },
    async play(stage) {
      const [pair, otherPair] = stage.twoPairs() as [number[], number[]];
      for (const nodes of [pair, otherPair]) {
        const others = [0, 1, 2, 3, 4].filter((index) => !nodes.includes(index));
        const mode: LinkMode = { kind: 'hold', direction: 'both' };
        await Promise.all([
          stage.links(mode, 1_500, { clients: [0, 1], nodes: others }),
          stage.links(mode, 1_500, { clients: [2, 3], nodes }),
        ]);
        await stage.pause(500);
      }
    },
    withoutEffect: atLeast(1, 'heldChunks'),
  },
  {
    name: 'slow near the node timeout',
    what: 'replies of all servers take 60 to 110 ms, at a node timeout of 100 ms',
    load: { holdMs: [0, 20] },
    limits: { idleMs: undefined },
    async play(stage) {
      await stage.links({ kind: 'delay', direction: 'replies', minMs: 60, maxMs: 110 }, 4_500);
      await stage.pause(500);
    },
  },
  {
    name: 'slow near the ttl',
    what: 'round trips of three workers take 0.1 to 0.3 s, at a node timeout of 0.33 s; the fourth is quick, and its clock so far ahead that theirs are always behind: three ballots of one attempt use up the ttl',
    quick: true,
    // Locks that are not extended end with their validity, and somebody waits for just that.
    load: { keys: 3, longShare: 0.6, unextendedShare: 0.6, setShare: 0 },
    options: { nodeTimeout: 330 },
    limits: { idleMs: undefined, nodeTimeoutMs: 330 },
    async play(stage) {
      const quick = stage.workers[3]!;
      await quick.ask({ type: 'set-wall-clock', skewMs: 5_000 });
      await stage.links({ kind: 'delay', minMs: 50, maxMs: 150 }, 4_500, { clients: [0, 1, 2] });
      await stage.pause(500);
    },
  },
  {
    name: 'slow minority',
    what: 'replies of two servers take 0.3 to 0.9 s',
    async play(stage) {
      const mode: LinkMode = { kind: 'delay', direction: 'replies', minMs: 300, maxMs: 900 };
      await stage.links(mode, 3_500, { nodes: stage.someServers(2) });
      await stage.pause(1_000);
    },
  },
  damaged('replies cut off', 'ends in the middle with the connection', 'truncate'),
  damaged('garbage for replies', 'is random bytes', 'garbage', { quick: true }),
  {
    name: 'reconnect storm',
    what: 'all connections of all workers are reset each 0.15 to 0.4 s, ten times',
    quick: true,
    async play(stage) {
      await stage.pause(300);
      for (let round = 0; round < 10; round += 1) {
        await stage.network.resetConnections();
        await stage.pause(stage.random.between(150, 400));
      }
      await stage.pause(1_500);
    },
    withoutEffect: atLeast(100, 'resets'),
  },
  {
    name: 'network process stopped',
    what: `the process of the network is stopped for 0.15 to 0.4 s, ${STOPS} times, as by a machine that is too busy: what it writes down of that itself is the only excuse`,
    quick: true,
    async play(stage) {
      for (let round = 0; round < STOPS; round += 1) {
        await stage.stopNetwork(stage.random.between(150, 400));
        await stage.pause(500);
      }
    },
    withoutEffect: outageNoticed,
  },
];
