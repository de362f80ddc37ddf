import { setTimeout as sleep } from 'node:timers/promises';
import { GCProfiler } from 'node:v8';
import { countWrites } from '../test/support/count-writes.ts';
import {
  countsBetween,
  ServerCounters,
  type ServerCounts,
} from '../test/support/redis-servers/server-counters.ts';
import type { Contestant } from './contestant.ts';
import { median, takeTurns } from './measure.ts';

/** Cost of one operation beside its time, on all servers together. */
export interface OperationCosts {
  /** Write system calls of this process. */
  readonly writes: number;
  /** Commands that the servers executed, those of scripts and the scripts themselves. */
  readonly calls: number;
  /** Bytes, both ways. */
  readonly bytes: number;
  /** Processor time of the servers, microseconds. */
  readonly serverCpu: number;
  /** Bytes of heap that this process allocated. */
  readonly allocated: number;
}

const PLAN = { rounds: 2, warmUpRounds: 0 };

/** Counters of the servers at these URLs. */
export function countersOf(urls: readonly string[]): ServerCounters[] {
  return urls.map((url) => new ServerCounters(Number(new URL(url).port)));
}

/** Once two readings are equal: what was handed to the sockets may take a while to get there. */
async function settledCounts(read: () => Promise<ServerCounts[]>): Promise<ServerCounts[]> {
  for (let counts = await read(); ;) {
    await sleep(5);
    const next = await read();
    const { calls, messages } = countsBetween(counts, next);
    if (calls + messages === 0) return counts;
    counts = next;
  }
}

/** Bytes that are allocated until the returned function is called: what collections took away counts, too. */
function countAllocations(): () => number {
  const profiler = new GCProfiler();
  profiler.start();
  const before = process.memoryUsage().heapUsed;
  return () => {
    const after = process.memoryUsage().heapUsed;
    const { statistics } = profiler.stop();
    return statistics.reduce(
      (sum, { beforeGC, afterGC }) =>
        sum + beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize,
      after - before,
    );
  };
}

/** Counted apart from the times, which the questions to the servers would disturb; `run` does so many operations. */
export async function operationCosts<Kind extends Contestant>(
  contestants: readonly Kind[],
  urls: readonly string[],
  operations: number,
  run: (contestant: Kind, round: number) => Promise<void>,
): Promise<OperationCosts[]> {
  countWrites();
  const take = async (contestant: Kind, round: number): Promise<OperationCosts> => {
    const servers = countersOf(urls);
    const read = () => Promise.all(servers.map((server) => server.read()));
    const before = await read();
    const writesBefore = countWrites();
    const allocatedSince = countAllocations();
    await run(contestant, round);
    const allocated = allocatedSince();
    const writes = countWrites() - writesBefore;
    const counts = countsBetween(before, await settledCounts(read));
    return {
      writes: writes / operations,
      calls: (counts.calls + counts.messages) / operations,
      bytes: (counts.received + counts.sent) / operations,
      serverCpu: counts.cpuMicros / operations,
      allocated: allocated / operations,
    };
  };
  const taken = await takeTurns(contestants, PLAN, take, () => undefined);
  const medianOf = (rounds: readonly OperationCosts[], kind: keyof OperationCosts) =>
    median(rounds.map((costs) => costs[kind]));
  return taken.map((rounds) => ({
    writes: medianOf(rounds, 'writes'),
    calls: medianOf(rounds, 'calls'),
    bytes: medianOf(rounds, 'bytes'),
    serverCpu: medianOf(rounds, 'serverCpu'),
    allocated: medianOf(rounds, 'allocated'),
  }));
}
