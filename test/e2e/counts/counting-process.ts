import { setImmediate as afterPoll } from 'node:timers/promises';
import { GCProfiler } from 'node:v8';
import { Redis } from 'ioredis';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
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
  /** Bytes that this process allocated: the least of three times, because the compiler of V8 allocates, too. */
  readonly allocated: number;
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

/** Bytes that are allocated until the returned function is called: what collections took away counts, too. */
function countAllocations(): () => number {
  const profiler = new GCProfiler();
  profiler.start();
  const before = process.memoryUsage().heapUsed;
  return () => {
    const after = process.memoryUsage().heapUsed;
    const collected = profiler
      .stop()
      .statistics.map(
        ({ beforeGC, afterGC }) =>
          beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize,
      );
    return collected.reduce((sum, bytes) => sum + bytes, after - before);
  };
}

async function closeGate(port: number): Promise<void> {
  const redis = new Redis(port);
  await redis.del(gateName(new NodeNames('lock:', []).marker));
  await redis.quit();
}

async function count({ name, nodes }: CountingQuestion): Promise<Counts> {
  const scenario: CountedScenario = COUNTED[name];
  const servers = ports.slice(0, nodes).map((port) => new ServerCounters(port));
  let extensions = 0;
  let look = (): void => undefined;
  const redlock = new Redlock(
    ports.slice(0, nodes).map((port) => new RedisLockNode(`redis://127.0.0.1:${port}`)),
    {
      restartGuard: false,
      // The machine may be busy: nobody gives up.
      wait: '1m',
      ttl: scenario.ttl,
      onEvent: scenario.ttl
        ? ({ type }) => {
            if (type !== 'extended') return;
            extensions += 1;
            look();
          }
        : undefined,
    },
  );
  redlock.open();
  const isOut = () => redlock.status().nodes.some(({ state }) => state !== 'voting');
  while (isOut()) await afterPoll();
  const settled = async () => {
    await Promise.all(servers.map((server) => server.settled()));
    await afterPoll();
  };
  const rounds = async (times: number, settle: () => Promise<void>) => {
    for (let round = 0; round < times; round += 1) {
      await scenario.run({
        redlock,
        newKey: () => `key:${String((keys += 1)).padStart(8, '0')}`,
        settled: settle,
        extended: (more) => {
          const until = extensions + more;
          return new Promise((resolve) => {
            look = () => void (extensions >= until && resolve());
          });
        },
      });
      await settle();
    }
  };
  // Opened again by the next vote, and so for longer than is counted.
  await Promise.all(ports.slice(0, nodes).map(closeGate));
  await (await redlock.acquire('gate')).release();
  await settled();
  const read = () => Promise.all(servers.map((server) => server.read()));
  const held = await Promise.all(
    Array.from({ length: scenario.held ?? 0 }, (_, index) => redlock.acquire(`held:${index}`)),
  );
  await rounds(1, settled);
  const ownWrites = () => countWrites() - servers.reduce((sum, each) => sum + each.requests, 0);
  const before = await read();
  const writesBefore = ownWrites();
  await rounds(scenario.rounds, settled);
  const writes = ownWrites() - writesBefore;
  const counts = countsBetween(before, await read());
  const allocations: number[] = [];
  if (scenario.rounds > 1) {
    await rounds(scenario.rounds * 10, afterPoll);
    while (allocations.length < 3) {
      const allocatedSince = countAllocations();
      await rounds(scenario.rounds, afterPoll);
      allocations.push(allocatedSince());
    }
  }
  await Promise.all(held.map((lock) => lock.release()));
  await redlock.close();
  const perRound = (total: number) => total / scenario.rounds;
  return {
    messages: perRound(counts.messages),
    calls: perRound(counts.calls),
    writes: perRound(writes),
    received: perRound(counts.received),
    sent: perRound(counts.sent),
    allocated: perRound(allocations.sort((one, other) => one - other)[0] ?? 0),
  };
}

answerQuestions<CountingQuestion>('ready', count);
