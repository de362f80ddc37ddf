import type { Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';

// Networks that lose, delay, cut and garble. Each worker has its own way to each server.

const MINORITY_LIMITS: Schedule['limits'] = { expectedRefusals: new Set(['LOCK_BUSY']) };

async function flap(stage: Stage, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const nodes = stage.someServers(2);
    await stage.network.set({ kind: 'refuse' }, { nodes });
    await stage.pause(stage.random.between(50, 250));
    await stage.network.set({ kind: 'pass' }, { nodes });
    // Until clients have come back, so that never more than two are away.
    await stage.pause(stage.random.between(400, 600));
  }
}

/** Two servers (and then two others) lose what goes one way. */
function oneWay(
  name: string,
  direction: 'requests' | 'replies',
  more: Partial<Schedule> = {},
): Schedule {
  return {
    name,
    what: `two servers lose all ${direction} for 1.5 s and then the connection, then two others`,
    limits: MINORITY_LIMITS,
    ...more,
    async play(stage) {
      for (let round = 0; round < 2; round += 1) {
        const nodes = stage.someServers(2);
        await stage.network.set({ kind: 'lose', direction }, { nodes });
        await stage.pause(1_500);
        await stage.network.set({ kind: 'pass' }, { nodes });
        await stage.pause(500);
      }
    },
    withoutEffect: ({ network }) => (network.lostChunks > 0 ? undefined : 'nothing was lost'),
  };
}

const repliesOfMajorityLost: Schedule = {
  name: 'replies of a majority lost',
  what: 'three servers do what they are told, and no reply gets through for 1.2 s',
  async play(stage) {
    const nodes = stage.someServers(3);
    await stage.pause(500);
    await stage.withoutQuorum(
      1_200,
      () => stage.network.set({ kind: 'lose', direction: 'replies' }, { nodes }),
      () => stage.network.set({ kind: 'pass' }, { nodes }),
    );
    await stage.pause(1_500);
  },
  withoutEffect: ({ network }) => (network.lostChunks > 0 ? undefined : 'nothing was lost'),
};

const lateReplies: Schedule = {
  name: 'replies held and delivered late',
  what: 'all replies are held for 0.15 to 1.4 s and then delivered, again and again',
  quick: true,
  async play(stage) {
    await stage.pause(300);
    await stage.withoutQuorum(
      0,
      async () => {
        for (let round = 0; round < 5; round += 1) {
          await stage.network.set({ kind: 'hold', direction: 'replies' });
          await stage.pause(stage.random.between(150, 1_400));
          await stage.network.set({ kind: 'pass' });
          await stage.pause(stage.random.between(20, 300));
        }
      },
      () => Promise.resolve(),
    );
    await stage.pause(1_200);
  },
  withoutEffect: ({ network }) => (network.heldChunks > 0 ? undefined : 'nothing was held'),
};

const executedWithoutReply: Schedule = {
  name: 'executed, reply lost',
  what: 'one after the other, connections break between a request and its reply, everywhere',
  async play(stage) {
    for (let round = 0; round < 30; round += 1) {
      await stage.network.resetAfterRequest({ nodes: stage.someServers(1) });
      await stage.pause(100);
    }
  },
  withoutEffect: ({ network }) => (network.resets > 20 ? undefined : 'too few connections broke'),
};

const partitionedWorker: Schedule = {
  name: 'partitioned worker',
  what: 'one worker, and then another, reaches only two servers for 1.5 s; what it sent arrives later',
  quick: true,
  limits: { idleMs: undefined },
  async play(stage) {
    for (let round = 0; round < 2; round += 1) {
      const clients = [stage.random.pick([0, 1, 2, 3])];
      const nodes = stage.someServers(3);
      await stage.withoutQuorum(
        1_500,
        () => stage.network.set({ kind: 'hold', direction: 'both' }, { clients, nodes }),
        () => stage.network.set({ kind: 'pass' }, { clients, nodes }),
      );
      await stage.pause(500);
    }
  },
  withoutEffect: ({ network }) => (network.heldChunks > 0 ? undefined : 'nothing was held'),
};

const slowNearNodeTimeout: Schedule = {
  name: 'slow near the node timeout',
  what: 'replies of all servers take 60 to 110 ms, at a node timeout of 100 ms',
  load: { holdMs: [0, 20] },
  limits: { idleMs: undefined },
  async play(stage) {
    await stage.network.set({ kind: 'delay', direction: 'replies', minMs: 60, maxMs: 110 });
    await stage.pause(4_500);
    await stage.network.set({ kind: 'pass' });
    await stage.pause(500);
  },
};

const slowNearTtl: Schedule = {
  name: 'slow near the ttl',
  what: 'round trips of three workers take 0.1 to 0.3 s, at a node timeout of 0.33 s: three ballots of one attempt use up the ttl; the fourth is quick',
  quick: true,
  // What is not extended ends with its validity, and somebody waits for just that.
  load: { keys: 3, longShare: 0.6, unextendedShare: 0.6, setShare: 0 },
  options: { nodeTimeout: 330 },
  limits: { idleMs: undefined, nodeTimeoutMs: 330 },
  async play(stage) {
    await stage.network.set({ kind: 'delay', minMs: 50, maxMs: 150 }, { clients: [0, 1, 2] });
    await stage.pause(4_500);
    await stage.network.set({ kind: 'pass' });
    await stage.pause(500);
  },
};

const slowMinority: Schedule = {
  name: 'slow minority',
  what: 'replies of two servers take 0.3 to 0.9 s',
  limits: MINORITY_LIMITS,
  async play(stage) {
    const nodes = stage.someServers(2);
    await stage.network.set(
      { kind: 'delay', direction: 'replies', minMs: 300, maxMs: 900 },
      { nodes },
    );
    await stage.pause(3_500);
    await stage.network.set({ kind: 'pass' }, { nodes });
    await stage.pause(1_000);
  },
};

/** Replies of two servers are cut off or garbled now and then, then of all. */
function damaged(kind: 'truncate' | 'garbage', quick: Pick<Schedule, 'quick'>): Schedule {
  return {
    name: kind === 'truncate' ? 'replies cut off' : 'garbage for replies',
    what: `a fifth of the replies of two servers, then one in fifty of all, ${kind === 'truncate' ? 'ends in the middle with the connection' : 'is random bytes'}`,
    ...quick,
    limits: { idleMs: undefined },
    async play(stage) {
      const nodes = stage.someServers(2);
      await stage.network.set({ kind, probability: 0.2 }, { nodes });
      await stage.pause(1_800);
      await stage.network.set({ kind, probability: 0.02 });
      await stage.pause(1_800);
      await stage.network.set({ kind: 'pass' });
      await stage.pause(500);
    },
    withoutEffect: ({ network }) =>
      network.truncatedChunks + network.garbledChunks > 10
        ? undefined
        : 'too few replies were damaged',
  };
}

const reconnectStorm: Schedule = {
  name: 'reconnect storm',
  what: 'all connections of all workers are reset each 0.15 to 0.4 s, ten times',
  quick: true,
  async play(stage) {
    await stage.pause(300);
    await stage.withoutQuorum(
      0,
      async () => {
        for (let round = 0; round < 10; round += 1) {
          await stage.network.resetConnections();
          await stage.pause(stage.random.between(150, 400));
        }
      },
      () => Promise.resolve(),
    );
    await stage.pause(1_500);
  },
  withoutEffect: ({ network }) => (network.resets >= 100 ? undefined : 'too few resets'),
};

export const brokenNetworkSchedules: readonly Schedule[] = [
  {
    name: 'flap',
    what: 'connections to two servers are refused for 50 to 250 ms, again and again, never the same two',
    quick: true,
    limits: MINORITY_LIMITS,
    play: (stage) => flap(stage, 8),
  },
  oneWay('requests lost', 'requests'),
  oneWay('replies lost', 'replies', { quick: true }),
  repliesOfMajorityLost,
  lateReplies,
  executedWithoutReply,
  partitionedWorker,
  slowNearNodeTimeout,
  slowNearTtl,
  slowMinority,
  damaged('truncate', {}),
  damaged('garbage', { quick: true }),
  reconnectStorm,
];
