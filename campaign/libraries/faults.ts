import { setTimeout as sleep } from 'node:timers/promises';
import type { Stage } from './stage.ts';
import type { Servers } from './servers.ts';
import { TTL_MS, type Harm } from './worker-settings.ts';

/** What is done to the holder in a process, or to the servers while it works. */
export interface Fault {
  readonly name: string;
  readonly what: string;
  strike(stage: Stage, servers: Servers): Promise<unknown>;
}

const QUIET_MS = 3_000;
/** Longer than a lock lasts, and than a queue takes to find that nobody has renewed it. */
const AWAY_MS = 3 * TTL_MS;
const WORK_MS = 2.5 * TTL_MS;
const AN_HOUR_MS = 3_600_000;

/** Does something to the process of a holder that works for longer than a ttl, or to the servers. */
const whileAtWork =
  (act: (stage: Stage, client: number, servers: Servers) => Promise<unknown>): Fault['strike'] =>
  async (stage, servers) => {
    const client = await stage.harm({ how: 'work', when: 'at work', durationMs: WORK_MS });
    await Promise.all([act(stage, client, servers), sleep(WORK_MS)]);
  };

const stop =
  (when: Harm['when']): Fault['strike'] =>
  async (stage) => {
    const client = await stage.harm({ how: 'stop', when, durationMs: AWAY_MS });
    await sleep(AWAY_MS);
    stage.resume(client);
  };

/** The last one is that after which servers may want to be left alone for a time. */
export const FAULTS: readonly Fault[] = [
  { name: 'none', what: 'sections are shorter than the ttl', strike: () => sleep(QUIET_MS) },
  {
    name: 'long work',
    what: 'a holder works for two and a half ttl, and nothing happens to it',
    strike: whileAtWork(async () => undefined),
  },
  {
    name: 'killed',
    what: 'SIGKILL of a holder at work',
    strike: whileAtWork(async (stage, client) => {
      await stage.kill(client);
      await sleep(AWAY_MS);
    }),
  },
  {
    name: 'stopped',
    what: 'SIGSTOP of a holder at work, SIGCONT three ttl later',
    strike: stop('at work'),
  },
  {
    name: 'stopped before write',
    what: 'the same, when its library has just said that it has the lock, and before it writes',
    strike: stop('before write'),
  },
  {
    name: 'blocked',
    what: 'the event loop of a holder at work stands still for three ttl',
    strike: async (stage) => {
      await stage.harm({ how: 'block', when: 'at work', durationMs: AWAY_MS });
      await sleep(AWAY_MS);
    },
  },
  {
    name: 'cut off',
    what: 'the connections of a holder at work are reset for one and a half ttl',
    strike: whileAtWork((stage, client) => stage.links(client, { kind: 'reset' }, 1.5 * TTL_MS)),
  },
  {
    name: 'answers held',
    what: 'the answers to a holder at work come one and a half ttl late',
    strike: whileAtWork((stage, client) =>
      stage.links(client, { kind: 'hold', direction: 'replies' }, 1.5 * TTL_MS),
    ),
  },
  {
    name: 'clock back',
    what: 'the wall clock of a holder at work is set back by an hour',
    strike: whileAtWork((stage, client) => stage.setClock(client, -AN_HOUR_MS)),
  },
  {
    name: 'forgotten',
    what: 'while a holder works, a majority of servers is started again and has forgotten all; PostgreSQL and etcd keep their data',
    strike: whileAtWork((_stage, _client, servers) => servers.forget()),
  },
];
