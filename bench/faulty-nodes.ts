import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { RedisServer } from '../test/support/redis-servers/redis-server.ts';
import type { Contestant } from './contestant.ts';
import { ACQUIRE, connectAll, connectContestant, NOISE, RAW } from './lock-contestants.ts';
import { measure, timesOf, type RoundPlan } from './measure.ts';
import type { ProgressOf } from './progress.ts';
import type { Result } from './report.ts';

/** Effect of a fault on our time, beside that on the time of raw: with own cores for each server raw has 1.00. */
const FAULT_BAR = 1.05;
/** Contestants that get no free lock within this time hang, as far as a caller can say. */
const LIMIT_MS = 2_000;
/** Round trips to five servers, ms. */
const DELAYS_MS = [1, 1, 1, 1, 50];
const SLOW = `round trips of ${DELAYS_MS.join(', ')} ms`;
/** Cycles before a slow lock is measured: what has run a hundred times is not compiled, and takes several times as long. */
const WARM_UP_CYCLES = 3_000;
const WARM_UP_CALLERS = 50;

type Urls = readonly string[];

/** Raw and this package with some of five nodes frozen, against five that answer; then beside others, with nodes frozen for all. */
export async function frozenNodes(
  servers: readonly RedisServer[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const urls = servers.map(({ url }) => url);
  const results: Result[] = [];
  for (const frozen of [1, 2]) {
    // The healthy ones need servers of their own: the first five.
    const spares = servers.slice(-frozen);
    const sick = [...urls.slice(0, 5 - frozen), ...spares.map(({ url }) => url)];
    const pairs = await connectPairs(urls.slice(0, 5), sick);
    const others = await connectAll([RAW, NOISE, ACQUIRE], sick);
    for (const spare of spares) await spare.freeze();
    try {
      const scenario = `${frozen} of five frozen`;
      results.push(...(await againstNone(scenario, pairs, plan, progressOf)));
      results.push(...(await compareThose(`${scenario}, for all`, others, plan, progressOf)));
    } finally {
      for (const spare of spares) await spare.resume();
      await Promise.all([...pairs, ...others].map((each) => each.close()));
    }
  }
  return results;
}

/** Behind proxies that delay the answers; in a process of their own, so that they cost this one nothing. */
export async function slowNode(
  urls: Urls,
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
    // A quorum of the four fast ones is three of them, too: the third fastest of five equal ones answers earlier.
    const pairs = await connectPairs(slow.slice(0, -1), slow);
    const others = await connectAll([RAW, NOISE, ACQUIRE], slow);
    for (const contestant of [...pairs, ...others]) await warmUp(contestant);
    const results = await againstNone(SLOW, pairs, plan, progressOf);
    results.push(...(await compareThose(`${SLOW}, for all`, others, plan, progressOf)));
    await Promise.all([...pairs, ...others].map((each) => each.close()));
    return results;
  } finally {
    proxies.kill('SIGKILL');
  }
}

/** Raw and this package on servers without a fault, then both on those with one. */
async function connectPairs(healthy: Urls, faulty: Urls): Promise<Contestant[]> {
  const pairOn = (urls: Urls, fault: string) =>
    [RAW, ACQUIRE].map(async (name): Promise<Contestant> => {
      const lock = await connectContestant(name, urls);
      return {
        name: `${name === RAW ? 'raw' : 'lock'}, ${fault}`,
        cycle: (key) => lock.cycle(key),
        close: () => lock.close(),
      };
    });
  return Promise.all([...pairOn(healthy, 'no fault'), ...pairOn(faulty, 'fault')]);
}

async function againstNone(
  scenario: string,
  pairs: readonly Contestant[],
  plan: RoundPlan,
  progressOf: ProgressOf,
): Promise<Result[]> {
  // A round of four is short.
  const longer = { ...plan, rounds: 3 * plan.rounds };
  const results = await compare(`${scenario}, against none`, pairs, longer, progressOf);
  const [raw, ours, rawWithFault, oursWithFault] = results.map(({ value }) => value);
  const value = oursWithFault! / ours! / (rawWithFault! / raw!);
  const beside = { scenario: `${scenario}, cost beside that to raw`, contestant: ACQUIRE };
  return [...results, { ...beside, value, unit: '×', nodes: 5, bar: FAULT_BAR }];
}

/** Many at once: one after the other they would take minutes. */
async function warmUp(contestant: Contestant): Promise<void> {
  for (let cycle = 0; cycle < WARM_UP_CYCLES; cycle += WARM_UP_CALLERS) {
    const callers = Array.from({ length: WARM_UP_CALLERS }, (_, index) =>
      contestant.cycle(`${contestant.name}:${cycle + index}`),
    );
    await Promise.all(callers);
  }
}

/** Results of those that get a lock at all, and a line for each that does not. */
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
