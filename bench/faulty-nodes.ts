import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { RedisServer } from '../test/support/redis-servers/redis-server.ts';
import type { Contestant } from './contestant.ts';
import { ACQUIRE, connectAll, NOISE, RAW } from './lock-contestants.ts';
import { measure, timesOf, type RoundPlan } from './measure.ts';
import type { ProgressOf } from './progress.ts';
import { connectRedlock } from './redlock-contestant.ts';
import type { Result } from './report.ts';

const FROZEN_BAR = 1.15;
/** Who does not get a free lock within this time hangs, as far as a caller can say. */
const LIMIT_MS = 2_000;
/** Round trips to five servers, ms. */
const DELAYS_MS = [1, 1, 1, 1, 50];

/** This package with some of five nodes frozen, against five that answer; then beside others, with nodes frozen for all. */
export async function frozenNodes(
  servers: readonly RedisServer[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const urls = servers.map(({ url }) => url);
  const results: Result[] = [];
  for (const frozen of [1, 2]) {
    // The healthy ones need servers of their own: the first four, and a spare one.
    const spares = servers.slice(-frozen);
    const healthy = await connectRedlock('all five answer', urls.slice(0, 5));
    const sick = [...urls.slice(0, 5 - frozen), ...spares.map(({ url }) => url)];
    const ours = await connectRedlock(`${frozen} of five frozen`, sick);
    const others = await connectAll([RAW, NOISE, ACQUIRE], sick);
    for (const spare of spares) await spare.freeze();
    try {
      const scenario = `${frozen} of five frozen`;
      const own = await compare(`${scenario}, against none`, [healthy, ours], plan, progressOf);
      results.push(own[0]!, { ...own[1]!, bar: FROZEN_BAR });
      results.push(...(await compareThose(`${scenario}, for all`, others, plan, progressOf)));
    } finally {
      for (const spare of spares) await spare.resume();
      await Promise.all([healthy, ours, ...others].map((each) => each.close()));
    }
  }
  return results;
}

/** Behind proxies that delay the answers; in a process of their own, so that they cost this one nothing. */
export async function slowNode(
  urls: readonly string[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const script = fileURLToPath(new URL('./delayed-servers.js', import.meta.url));
  const targets = urls.map((url, index) => ({
    port: Number(new URL(url).port),
    delayMs: DELAYS_MS[index]!,
  }));
  const proxies = fork(script, [JSON.stringify(targets)]);
  try {
    const [ports] = (await once(proxies, 'message')) as [number[]];
    const slow = ports.map((port) => `redis://127.0.0.1:${port}`);
    const contestants = await connectAll([RAW, NOISE, ACQUIRE], slow);
    const scenario = `round trips of ${DELAYS_MS.join(', ')} ms`;
    const results = await compareThose(scenario, contestants, plan, progressOf);
    await Promise.all(contestants.map((each) => each.close()));
    return results;
  } finally {
    proxies.kill('SIGKILL');
  }
}

/** Those that get a lock at all, and a line for each that does not. */
async function compareThose(
  scenario: string,
  contestants: readonly Contestant[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const answering: Contestant[] = [];
  const hanging: Result[] = [];
  for (const contestant of contestants) {
    const note = await whyNot(contestant, scenario);
    if (note === undefined) answering.push(contestant);
    else
      hanging.push({
        scenario,
        contestant: contestant.name,
        value: Number.NaN,
        unit: '×',
        note,
        nodes: 5,
      });
  }
  return [...(await compare(scenario, answering, plan, progressOf)), ...hanging];
}

async function whyNot(contestant: Contestant, scenario: string): Promise<string | undefined> {
  const limit = new Promise<string>((resolve) =>
    setTimeout(resolve, LIMIT_MS, `no lock within ${LIMIT_MS / 1_000} s`).unref(),
  );
  const done = contestant.cycle(`${scenario}:${contestant.name}`).then(
    () => undefined,
    (error: Error) => `refused: ${error.name}`,
  );
  return Promise.race([done, limit]);
}

async function compare(
  scenario: string,
  contestants: readonly Contestant[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const measured = await measure(contestants, plan, progressOf(scenario));
  return measured.map((each) => ({
    scenario,
    contestant: each.name,
    value: each.ratio,
    unit: '×',
    nodes: 5,
    ...timesOf(each),
  }));
}
