import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { collectHoldings, type Holding } from '../../test/history/holding.ts';
import { readHistory } from '../../test/history/history-file.ts';
import { Program } from '../../test/support/program.ts';
import { type RedisServer, startRedisServers } from '../../test/support/redis-servers/index.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import { chosen, readPartOptions, say, sayHow, someOf } from '../part-options.ts';
import { PLAYS, type Outcome, type PermitPlay } from './plays.ts';
import type { WorkerSettings, WorkerState } from './worker.ts';

type Worker = Program<{ readonly ask: 'start' | 'stop' }>;

/** The wall clocks of every second process are ahead by so much. */
const CLOCKS_APART_MS = 2_000;
const KILL_EVERY_MS = 3_000;

const options = readPartOptions();
const processes = options.isQuick ? 8 : 32;
const durationMs = options.isQuick ? 10_000 : 60_000;

async function play({ kind, permits, kills }: PermitPlay, seed: number): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), 'permits-'));
  const servers = await startRedisServers(3, { own: true });
  const files: string[] = [];
  const start = (index: number): Worker => {
    const name = `p${index}/${files.length}`;
    const file = join(folder, `${files.length}.jsonl`);
    files.push(file);
    const settings: WorkerSettings = {
      kind,
      name,
      nodes: servers.map(({ url }: RedisServer) => url),
      permits: permits[index % permits.length]!,
      // Both clocks are among the processes of either number.
      clockMs: Math.floor(index / permits.length) % 2 === 0 ? 0 : CLOCKS_APART_MS,
      file,
    };
    return new Program('campaign/permits/worker.ts', settings);
  };
  const workers = Array.from({ length: processes }, (_, index) => start(index));
  const victims = new Set<number>();
  try {
    await Promise.all(workers.map((each) => each.first()));
    await Promise.all(workers.map((each) => each.ask({ ask: 'start' })));
    const untilMs = performance.now() + durationMs;
    const chance = new SeededRandom(seed);
    while (performance.now() < untilMs) {
      await sleep(Math.min(KILL_EVERY_MS, Math.max(0, untilMs - performance.now())));
      // One in four: the others are judged for how many permits each got.
      const index = 4 * Math.floor(chance.between(0, processes / 4));
      if (!kills) continue;
      victims.add(index);
      await workers[index]!.kill();
      workers[index] = start(index);
      await workers[index].first();
      await workers[index].ask({ ask: 'start' });
    }
    const states = await Promise.all(workers.map((each) => each.ask<WorkerState>({ ask: 'stop' })));
    const holdings = collectHoldings(files.flatMap((file) => readHistory(file)));
    return outcomeOf(permits, states, holdings, victims, files.length - processes);
  } finally {
    await Promise.all(workers.map((each) => each.kill()));
    await Promise.all(servers.map((server) => server.stop()));
    await rm(folder, { recursive: true });
  }
}

function outcomeOf(
  permits: readonly number[],
  states: readonly WorkerState[],
  holdings: readonly Holding[],
  victims: ReadonlySet<number>,
  kills: number,
): Outcome {
  const refused: Record<string, number> = {};
  for (const [code, count] of states.flatMap((state) => Object.entries(state.refused)))
    refused[code] = (refused[code] ?? 0) + count;
  const lasting = states.filter((_, index) => !victims.has(index)).map(({ grants }) => grants);
  const sum = lasting.reduce((total, count) => total + count, 0);
  const squares = lasting.reduce((total, count) => total + count ** 2, 0);
  const ofNumber = (number: number) =>
    states.filter((_, index) => permits[index % permits.length] === number);
  return {
    most: mostAtOnce(holdings),
    grants: holdings.length,
    fairness: sum ** 2 / (lasting.length * squares),
    kills,
    refused,
    differ: Object.fromEntries(
      permits.map((number) => [number, ofNumber(number).map(({ differ }) => differ)]),
    ),
  };
}

function mostAtOnce(holdings: readonly Holding[]): number {
  let [most, running] = [0, [] as Holding[]];
  for (const holding of holdings) {
    const { at } = holding.granted;
    if (holding.endedAt <= at) continue;
    running = [...running.filter(({ endedAt }) => endedAt > at), holding];
    most = Math.max(most, running.length);
  }
  return most;
}

let failed = 0;
const plays = someOf(chosen(PLAYS, options.only), options.only);
for (const each of plays) {
  const { name, permits, fault } = each;
  const outcome = await play(each, options.seed);
  const { most, grants, fairness, kills } = outcome;
  const failure = fault(outcome, permits);
  const figures = `${processes} processes, ${grants} grants, ${kills} killed; at most ${most} at once; fairness ${fairness.toFixed(3)}`;
  say(`${failure === undefined ? 'ok' : 'FAILED'}: ${name}, permits ${permits.join()}: ${figures}`);
  if (failure === undefined) continue;
  failed += 1;
  say(failure);
  sayHow(`permits/${name}`, options);
}
say(`${plays.length} plays, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
