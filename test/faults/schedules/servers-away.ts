import type { Schedule } from '../run/schedule.ts';
import { eachServer } from './each-server.ts';

// Servers that stop or die for a while. A minority must not be noticed; a majority stops everybody, and recovers at once.

const minorityFrozen: Schedule = {
  name: 'minority frozen',
  what: 'two servers stop (SIGSTOP) for 1.5 s and go on, then two others',
  quick: true,
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    for (let round = 0; round < 2; round += 1) {
      const frozen = stage.someServers(2);
      await eachServer(stage, frozen, (server) => server.freeze());
      await stage.pause(1_500);
      await eachServer(stage, frozen, (server) => server.resume());
      await stage.pause(500);
    }
  },
};

const majorityFrozen: Schedule = {
  name: 'majority frozen',
  what: 'three servers stop for 1.8 s, past every lease, and go on',
  quick: true,
  async play(stage) {
    const frozen = stage.someServers(3);
    await stage.pause(500);
    await stage.withoutQuorum(
      1_800,
      () => eachServer(stage, frozen, (server) => server.freeze()),
      () => eachServer(stage, frozen, (server) => server.resume()),
    );
    await stage.pause(1_500);
  },
  withoutEffect: ({ measures }) =>
    measures.refusals['QUORUM_UNAVAILABLE'] ? undefined : 'nobody noticed the outage',
};

const minorityKilled: Schedule = {
  name: 'minority killed',
  what: 'two servers die and stay away for 2 s, then come back empty',
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    const dead = stage.someServers(2);
    await stage.pause(500);
    await eachServer(stage, dead, (server) => server.kill());
    await stage.pause(2_000);
    await eachServer(stage, dead, (server) => server.restart());
    await stage.pause(2_000);
  },
};

const nodeZeroDead: Schedule = {
  name: 'server 0 dead',
  what: 'the first server is away the whole time: no server is special',
  limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
  async play(stage) {
    await stage.servers[0]!.kill();
    await stage.pause(4_000);
    await stage.servers[0]!.restart();
  },
};

export const serversAwaySchedules: readonly Schedule[] = [
  minorityFrozen,
  majorityFrozen,
  minorityKilled,
  nodeZeroDead,
];
