import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { countsBetween } from '../test/support/redis-servers/server-counters.ts';
import type { ContentionAnswer, ContentionOrder } from './contention-process.ts';
import { RAW, WITH_LOCK } from './lock-contestants.ts';
import { median } from './measure.ts';
import { countersOf } from './operation-costs.ts';
import { peerNames } from './peers.ts';
import type { ProgressOf } from './progress.ts';
import type { Result } from './report.ts';

const HOLD_MS = 2;
/** Run that needs longer is ended. */
const LIMIT_MS = 15_000;
const FAIRNESS_MS = 8_000;

export interface ContentionPlan {
  readonly callers: number;
  readonly processes: number;
}

interface Outcome {
  readonly totalMs: number;
  readonly longestMs: number;
  readonly grants: readonly number[];
  readonly calls: number;
  readonly cpu: number;
  readonly gaveUp: number;
  readonly overlaps: number;
}

/** Hundreds of grants are their own repetition. */
const roundsOf = (callers: number): number => (callers < 100 ? 3 : 1);

let keys = 0;

/**
 * Callers that all want one key at once and hold it for a moment. The measure is raw ioredis behind a queue in one process,
 * which needs no lock at all between its callers. Who gives up asks again.
 */
export async function contention(
  urls: readonly string[],
  { callers, processes }: ContentionPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const scenario = `${callers} callers for one key, ${processes === 1 ? 'one process' : `${processes} processes`}, N=${urls.length}`;
  const progress = progressOf(scenario);
  const rounds = roundsOf(callers);
  const names = [RAW, WITH_LOCK, ...peerNames(urls.length)];
  const outcomes = names.map((): (Outcome | undefined)[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, contestant] of names.entries()) {
      const count = index === 0 ? 1 : processes;
      outcomes[index]!.push(await contend(contestant, urls, callers, count));
      progress((round + (index + 1) / names.length) / rounds);
    }
  }
  const base = outcomes[0]!;
  return names.map((contestant, index): Result => {
    const done = outcomes[index]!.filter((outcome) => outcome !== undefined);
    const common = { scenario, contestant, unit: '×', callers, nodes: urls.length } as const;
    if (done.length < rounds)
      return { ...common, value: Number.NaN, note: `not done in ${LIMIT_MS / 1_000} s` };
    const medianOf = (kind: Exclude<keyof Outcome, 'grants'>) =>
      median(done.map((outcome) => outcome[kind]));
    const notes = [`longest wait ${medianOf('longestMs').toFixed(0)} ms`];
    if (medianOf('gaveUp') > 0) notes.push(`${medianOf('gaveUp')} calls gave up`);
    if (medianOf('overlaps') > 0) notes.push(`${medianOf('overlaps')} OVERLAPS`);
    return {
      ...common,
      value: median(done.map(({ totalMs }, round) => totalMs / base[round]!.totalMs)),
      micros: (medianOf('totalMs') * 1_000) / callers,
      clientCpu: medianOf('cpu') / callers,
      calls: medianOf('calls') / callers,
      note: notes.join(', '),
    };
  });
}

/** Sixteen callers ask for one key again and again: how evenly they get it, by Jain's index; 1 where all get it equally often. */
export async function fairness(
  urls: readonly string[],
  processes: number,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const scenario = `16 callers for one key again and again, ${processes === 1 ? 'one process' : `${processes} processes`}, N=${urls.length}`;
  const progress = progressOf(scenario);
  const results: Result[] = [];
  const names = [WITH_LOCK, ...peerNames(urls.length)];
  for (const [index, contestant] of names.entries()) {
    const outcome = await contend(contestant, urls, 16, processes, FAIRNESS_MS);
    const grants = outcome?.grants ?? [];
    const total = grants.reduce((sum, count) => sum + count, 0);
    const squares = grants.reduce((sum, count) => sum + count * count, 0);
    const share = (count: number) => `${((100 * count) / total).toFixed(1)} %`;
    results.push({
      scenario,
      contestant,
      value: (total * total) / (grants.length * squares),
      unit: 'Jain',
      nodes: urls.length,
      note:
        outcome === undefined
          ? `not done in ${LIMIT_MS / 1_000} s`
          : `${total} grants, from ${share(Math.min(...grants))} to ${share(Math.max(...grants))} for a caller`,
    });
    progress((index + 1) / names.length);
  }
  return results;
}

/** Undefined when it took too long. */
async function contend(
  contestant: string,
  urls: readonly string[],
  callers: number,
  processes: number,
  forMs?: number,
): Promise<Outcome | undefined> {
  keys += 1;
  const order: ContentionOrder = {
    contestant,
    urls,
    key: `contended:${keys}`,
    callers: Math.ceil(callers / processes),
    holdMs: HOLD_MS,
    forMs,
  };
  const script = fileURLToPath(new URL('./contention-process.js', import.meta.url));
  const children = Array.from({ length: processes }, () => fork(script, [JSON.stringify(order)]));
  try {
    await Promise.all(children.map((child) => message(child)));
    const servers = countersOf(urls);
    const before = await Promise.all(servers.map((server) => server.read()));
    const startedAtMs = performance.now();
    const limit = new Promise<undefined>((resolve) =>
      setTimeout(() => resolve(undefined), LIMIT_MS).unref(),
    );
    const answers = Promise.all(
      children.map((child) => {
        const answer = message<ContentionAnswer>(child);
        child.send('go');
        return answer;
      }),
    );
    const done = await Promise.race([answers, limit]);
    const totalMs = performance.now() - startedAtMs;
    if (done === undefined) return undefined;
    const counts = countsBetween(before, await Promise.all(servers.map((server) => server.read())));
    const sum = (kind: 'cpu' | 'gaveUp' | 'overlaps') =>
      done.reduce((total, answer) => total + answer[kind], 0);
    return {
      totalMs,
      grants: done.flatMap(({ grants }) => grants),
      longestMs: Math.max(...done.flatMap(({ waits }) => waits)),
      calls: counts.calls + counts.messages,
      cpu: sum('cpu'),
      gaveUp: sum('gaveUp'),
      overlaps: sum('overlaps'),
    };
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
}

async function message<Answer>(child: ChildProcess): Promise<Answer> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`a process of the contention ended with ${code}`);
  });
  ended.catch(() => undefined);
  const [answer] = (await Promise.race([once(child, 'message'), ended])) as [Answer];
  return answer;
}
