import { historyNow } from '../../history/lock-history.ts';
import type { RedisServer } from '../../support/redis-servers/redis-server.ts';
import { respRequest } from '../../support/redis-servers/resp-request.ts';
import type { Schedule } from '../run/schedule.ts';
import { eachServer } from './each-server.ts';

// Servers that come back, with and without what they knew, and servers that are emptied. What restarted does not vote for a
// guard time; where that is a majority, nobody is granted a lock before.

const flushAll = ({ host, port }: RedisServer): Promise<string> =>
  respRequest({ address: { host, port } }, ['FLUSHALL']);

/** `count` servers lose all they knew at once. */
function restartedEmpty(
  name: string,
  count: number,
  downMs: number,
  what: string,
  more: Partial<Schedule> = {},
): Schedule {
  return {
    name,
    what,
    ...more,
    async play(stage) {
      const dead = stage.someServers(count);
      await stage.pause(700);
      await stage.withoutQuorum(
        downMs,
        async () => {
          await eachServer(stage, dead, (server) => server.kill());
          stage.mark({ mark: 'majority-forgot', guardMs: stage.guardMs });
        },
        () => eachServer(stage, dead, (server) => server.restart()),
        stage.guardMs,
      );
      await stage.pause(2_200);
    },
  };
}

const minorityRestartedEmpty: Schedule = {
  name: 'minority restarted empty',
  what: 'two servers restart at once without their data; when they vote again, two others',
  quick: true,
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    const order = stage.someServers(4);
    for (const pair of [order.slice(0, 2), order.slice(2)]) {
      await eachServer(stage, pair, (server) => server.restart());
      await stage.pause(stage.guardMs + 700);
    }
  },
};

const withData: Pick<Schedule, 'servers'> = { servers: { appendonly: true } };

const minorityRestartedWithData: Schedule = {
  name: 'minority restarted with AOF',
  what: 'two servers die (kill -9) and come back with their append-only files, then two others',
  ...withData,
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    const order = stage.someServers(4);
    for (const pair of [order.slice(0, 2), order.slice(2)]) {
      await eachServer(stage, pair, (server) => server.kill());
      await eachServer(stage, pair, (server) => server.restart({ keepData: true }));
      await stage.pause(stage.guardMs + 700);
    }
  },
};

const majorityRestartedWithData: Schedule = {
  name: 'majority restarted with AOF',
  what: 'three servers die (kill -9) and come back with their append-only files',
  ...withData,
  async play(stage) {
    const dead = stage.someServers(3);
    await stage.pause(700);
    await stage.withoutQuorum(
      0,
      () => eachServer(stage, dead, (server) => server.kill()),
      () => eachServer(stage, dead, (server) => server.restart({ keepData: true })),
      stage.guardMs,
    );
    await stage.pause(2_200);
  },
};

const rollingFast: Schedule = {
  name: 'rolling restarts, fast',
  what: 'every server restarts empty, one each 0.3 s, three times round: faster than leases end',
  async play(stage) {
    await stage.pause(500);
    await stage.withoutQuorum(
      0,
      async () => {
        for (let round = 0; round < 15; round += 1) {
          await stage.servers[round % 5]!.restart();
          await stage.pause(300);
        }
      },
      () => Promise.resolve(),
      stage.guardMs,
    );
    await stage.pause(2_200);
  },
};

const rollingSlow: Schedule = {
  name: 'rolling restarts, slow',
  what: 'every server restarts empty, one each 1.6 s: the restart guard has passed before the next',
  load: { longShare: 0.2 },
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    for (const server of stage.servers) {
      await server.restart();
      await stage.pause(stage.guardMs + 600);
    }
  },
  withoutEffect: ({ measures }) =>
    measures.extensions > 0 ? undefined : 'no lease was extended over a restart',
};

const flushed = (name: string, count: number, quick: Pick<Schedule, 'quick'>): Schedule => ({
  name,
  what: `FLUSHALL on ${count} servers`,
  ...quick,
  async play(stage) {
    const victims = stage.someServers(count);
    await stage.pause(700);
    await stage.withoutQuorum(
      0,
      async () => {
        const from = historyNow();
        await eachServer(stage, victims, flushAll);
        // The first may have been joined again before the last was emptied.
        stage.mark({ mark: 'majority-forgot', guardMs: stage.guardMs - (historyNow() - from) });
      },
      () => Promise.resolve(),
      stage.guardMs,
    );
    await stage.pause(2_200);
  },
});

const minorityFlushed: Schedule = {
  name: 'minority FLUSHALL',
  what: 'FLUSHALL on two servers, then on two others when they vote again',
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    const order = stage.someServers(4);
    for (const pair of [order.slice(0, 2), order.slice(2)]) {
      await eachServer(stage, pair, flushAll);
      await stage.pause(stage.guardMs + 700);
    }
  },
};

export const restartSchedules: readonly Schedule[] = [
  minorityRestartedEmpty,
  restartedEmpty('majority restarted empty', 3, 0, 'three servers restart without their data', {
    quick: true,
  }),
  restartedEmpty('majority killed', 3, 1_200, 'three servers die, and come back empty after 1.2 s'),
  restartedEmpty('all restarted empty', 5, 0, 'all servers restart without their data'),
  minorityRestartedWithData,
  majorityRestartedWithData,
  rollingFast,
  rollingSlow,
  minorityFlushed,
  flushed('majority FLUSHALL', 3, { quick: true }),
  flushed('FLUSHALL everywhere', 5, {}),
];
