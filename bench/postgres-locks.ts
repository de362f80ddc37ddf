import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { startPostgres } from '../test/support/databases/postgres-server.ts';
import { measure, median, takeTurns } from './measure.ts';
import {
  OURS,
  postgresContestants,
  prepareDatabase,
  takeFor,
  type PostgresContestant,
  type Taken,
} from './postgres-contestants.ts';
import type { PostgresOrder } from './postgres-process.ts';
import type { ProgressOf } from './progress.ts';
import type { Result } from './report.ts';

const CALLERS = 64;
const PROCESSES = 4;
const FOR_MS = 1_000;
const PLAN = { rounds: 15, warmUpRounds: 3, cycles: 60 };

/**
 * Locks in PostgreSQL beside the least that survives a pooler: a row for each key, taken and freed by a statement each. Every commit
 * waits for the disk.
 */
export async function postgresLocks(progressOf: ProgressOf): Promise<Result[]> {
  const server = await startPostgres({ fsync: 'on' });
  try {
    await prepareDatabase(server.url);
    const contestants = await postgresContestants(server.url);
    const results: Result[] = [];
    for (const [scenario, bar, pick] of ALONE) {
      const cycles = contestants.map((each) => ({ ...each, cycle: () => pick(each) }));
      const measured = await measure(cycles, PLAN, progressOf(scenario));
      for (const { name, micros, ratio } of measured)
        results.push({
          scenario,
          contestant: name,
          value: ratio,
          unit: '×',
          micros,
          ...(name === OURS && { bar }),
        });
    }
    const keys = Array.from({ length: CALLERS }, (_, caller) => `key${caller}`);
    const sameKeys = keys.map(() => 'one key');
    const here = (wanted: readonly string[]) => (each: PostgresContestant) =>
      takeFor(each, wanted, FOR_MS);
    const one = `PostgreSQL, ${CALLERS} callers for one key`;
    const name = `PostgreSQL, ${CALLERS} callers, a key each`;
    results.push(...(await throughput(name, contestants, here(keys), progressOf)));
    results.push(...(await throughput(one, contestants, here(sameKeys), progressOf)));
    const processes = await startProcesses(server.url);
    const there = (each: PostgresContestant) => processes.take(contestants.indexOf(each));
    const four = `${one}, ${PROCESSES} processes`;
    results.push(...(await throughput(four, contestants, there, progressOf)));
    processes.end();
    for (const each of contestants) await each.close();
    return results;
  } finally {
    await server.stop();
  }
}

/** Processes that share the callers, and all want the same key. */
async function startProcesses(url: string) {
  const script = fileURLToPath(new URL('./postgres-process.js', import.meta.url));
  const children = Array.from({ length: PROCESSES }, () => fork(script, [url]));
  const answers = () =>
    Promise.all(children.map(async (child) => (await once(child, 'message'))[0]));
  await answers();
  return {
    async take(contestant: number): Promise<Taken> {
      const keys = Array.from({ length: CALLERS / PROCESSES }, () => 'one key');
      const order: PostgresOrder = { contestant, keys, forMs: FOR_MS };
      const answered = answers();
      for (const child of children) child.send(order);
      const taken: readonly Taken[] = await answered;
      return {
        count: taken.reduce((sum, { count }) => sum + count, 0),
        cpu: taken.reduce((sum, { cpu }) => sum + cpu, 0),
        longestMs: Math.max(...taken.map(({ longestMs }) => longestMs)),
      };
    },
    end: () => children.forEach((child) => child.disconnect()),
  };
}

const ALONE: readonly (readonly [string, number, (each: PostgresContestant) => Promise<void>])[] = [
  ['PostgreSQL, acquire and release', 0.95, (each) => each.cycle('alone')],
  ['PostgreSQL, lock, write and release', 0.85, (each) => each.write('seat1')],
  ['PostgreSQL, refused', 0.35, (each) => each.refused()],
];

/** Locks in a second, as a multiple of those of the first contestant in the same round. */
async function throughput(
  scenario: string,
  contestants: readonly PostgresContestant[],
  take: (contestant: PostgresContestant) => Promise<Taken>,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const rounds = { rounds: 7, warmUpRounds: 1 };
  const taken = await takeTurns(contestants, rounds, take, progressOf(scenario));
  return contestants.map(({ name }, index) => ({
    scenario,
    contestant: name,
    value: median(taken[index]!.map(({ count }, round) => count / taken[0]![round]!.count)),
    unit: '× throughput',
    clientCpu: median(taken[index]!.map(({ cpu, count }) => cpu / count)),
    note: `longest wait ${median(taken[index]!.map(({ longestMs }) => longestMs)).toFixed(0)} ms`,
  }));
}
