import { setImmediate as afterPoll } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import { createRedisNode } from '../../../lib/redis/client/create-redis-node.ts';
import { gateName } from '../../../lib/redis/scripts.ts';
import { answerQuestions, programSettings } from '../../support/program.ts';
import { countWrites } from '../../support/count-writes.ts';
import { countsBetween, ServerCounters } from '../../support/redis-servers/server-counters.ts';
import { COUNTED, type CountedName, type CountedScenario } from './counted-scenarios.ts';

// A process of its own: its heap has nothing of jest in it, and its sockets are those of the locks.

/** Counts of one round, on all servers together. */
export interface Counts {
  /** Scripts that were sent. */
  readonly messages: number;
  /** Commands that these scripts called. */
  readonly calls: number;
  /** Write system calls of this process. */
  readonly writes: number;
  /** Bytes that the servers received. */
  readonly received: number;
  /** Bytes that the servers sent. */
  readonly sent: number;
}

export interface CountingSettings {
  readonly ports: readonly number[];
}

/** A scenario, and how many nodes it has. */
export interface CountingQuestion {
  readonly name: CountedName;
  readonly nodes: number;
}

const { ports } = programSettings<CountingSettings>();
let keys = 0;

countWrites();

async function closeGate(port: number): Promise<void> {
  const redis = new Redis(port);
  await redis.del(gateName(new NodeNames('lock:', []).marker));
  await redis.quit();
}

async function count({ name, nodes }: CountingQuestion): Promise<Counts> {
  const scenario: CountedScenario = COUNTED[name];
  const servers = ports.slice(0, nodes).map((port) => new ServerCounters(port));
  const redlock = new Redlock(
    ports.slice(0, nodes).map((port) => createRedisNode(`redis://127.0.0.1:${port}`)),
    {
      restartGuard: false,
      identity: false,
      // However long this process or a server pauses, nobody gives up, asks again, or asks for life.
      wait: '1h',
      nodeTimeout: '20m',
      ttl: '1h',
    },
  );
  redlock.open();
  const isOut = () => redlock.status().nodes.some(({ state }) => state !== 'voting');
  while (isOut()) await afterPoll();
  const settled = async () => {
    await Promise.all(servers.map((server) => server.settled()));
    await afterPoll();
  };
  // Opened again by the next vote, and so for longer than is counted.
  await Promise.all(ports.slice(0, nodes).map(closeGate));
  await (await redlock.acquire('gate')).release();
  await settled();
  const held = await Promise.all(
    Array.from({ length: scenario.held ?? 0 }, (_, index) => redlock.acquire(`held:${index}`)),
  );
  const rounds = async (times: number) => {
    for (let round = 0; round < times; round += 1) {
      await scenario.run({
        redlock,
        newKey: () => `key:${String((keys += 1)).padStart(8, '0')}`,
        settled,
        held,
      });
      await settled();
    }
  };
  const read = () => Promise.all(servers.map((server) => server.read()));
  await rounds(1);
  const ownWrites = () => countWrites() - servers.reduce((sum, each) => sum + each.requests, 0);
  const before = await read();
  const writesBefore = ownWrites();
  await rounds(scenario.rounds);
  const writes = ownWrites() - writesBefore;
  const counts = countsBetween(before, await read());
  await Promise.all(held.map((lock) => lock.release()));
  await redlock.close();
  const perRound = (total: number) => total / scenario.rounds;
  return {
    messages: perRound(counts.messages),
    calls: perRound(counts.calls),
    writes: perRound(writes),
    received: perRound(counts.received),
    sent: perRound(counts.sent),
  };
}

answerQuestions<CountingQuestion>('ready', count);
