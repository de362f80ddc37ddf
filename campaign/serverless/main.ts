import { setTimeout as sleep } from 'node:timers/promises';
import { Program } from '../../test/support/program.ts';
import { chosen, readPartOptions, say, someOf } from '../part-options.ts';
import type { CallResult, FunctionCall, FunctionSettings, StartTimes } from './function.ts';
import { PLACES, type Place } from './places.ts';

const { isQuick, only } = readPartOptions();
/** The default of users, so that the times are theirs. */
const ttlMs = 10_000;
const frozenMs = 2 * ttlMs;
const functions = isQuick ? 2 : 6;
const STOP_LIMIT_MS = 10_000;

/** A freeze, and what its first call and the one after it are. */
interface Story {
  readonly name: string;
  /** What happens while the processes are stopped. */
  readonly meanwhile?: (place: Place) => void;
  readonly idleSeconds?: number;
  /** The function is stopped in its work, whose lock ends. */
  readonly isWorking?: true;
  readonly expected: string;
}

const STORIES: readonly Story[] = [
  { name: 'idle, connections kept', expected: 'locked, locked' },
  {
    name: 'idle, closed by the server',
    idleSeconds: Math.ceil(ttlMs / 1_000),
    expected: 'locked, locked',
  },
  {
    name: 'idle, forgotten by the network',
    meanwhile: ({ links }) => {
      for (const link of links) link.forget();
    },
    expected: 'locked, locked',
  },
  { name: 'at work', isWorking: true, expected: 'LOCK_LOST, locked' },
];

type Function = Program<FunctionCall>;

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
const shown = (values: readonly number[]): string =>
  `${Math.round(median(values))} (${Math.round(Math.max(...values))})`;

async function begin(settings: FunctionSettings): Promise<[Function, StartTimes]> {
  const program: Function = new Program('campaign/serverless/function.ts', settings);
  return [program, await program.first<StartTimes>()];
}

/** One after another: functions that start at once would share the processor. */
async function startAll(place: Place, isNest = false): Promise<Function[]> {
  const all: [Function, StartTimes][] = [];
  for (let count = 0; count < functions; count += 1)
    all.push(await begin({ urls: place.urls, ttlMs, isNest }));
  const times = (name: keyof StartTimes) => {
    const steps = all.map(([, each]) => each[name]);
    return `${shown(steps.map(({ ms }) => ms))}, CPU ${shown(steps.map(({ cpuMs }) => cpuMs))}`;
  };
  const how = isNest ? 'module' : 'createLocks';
  const perFunction = (await place.countConnections()) / functions;
  say(
    `${place.name} | ${how} | load ${times('load')} | start ${times('start')} | first lock ${times('firstLock')} | ${perFunction} connections`,
  );
  return all.map(([program]) => program);
}

async function thaw(
  program: Function,
  key: string,
  working?: Promise<CallResult>,
): Promise<CallResult[]> {
  // The event is there when the process runs again.
  const asked = working ?? program.ask<CallResult>({ key });
  program.child.kill('SIGCONT');
  return [await asked, await program.ask<CallResult>({ key })];
}

/** @returns whether every call ended as expected */
async function play(place: Place, story: Story): Promise<boolean> {
  await place.setIdleLimit(story.idleSeconds ?? 0);
  const all: Function[] = [];
  for (let count = 0; count < functions; count += 1)
    all.push((await begin({ urls: place.urls, ttlMs }))[0]);
  const working = all.map((program, index) =>
    story.isWorking ? program.ask<CallResult>({ key: `${index}`, workMs: 1_000 }) : undefined,
  );
  if (story.isWorking) await sleep(500);
  for (const program of all) program.child.kill('SIGSTOP');
  story.meanwhile?.(place);
  await sleep(frozenMs);
  const calls: CallResult[][] = [];
  for (const [index, program] of all.entries())
    calls.push(await thaw(program, `${index}`, working[index]));
  await Promise.all(all.map((program) => program.finish(STOP_LIMIT_MS)));
  const times = [0, 1].map((at) => shown(calls.map((each) => each[at]!.ms)));
  const outcomes = calls.map((each) => each.map(({ outcome }) => outcome).join(', '));
  const wrong = outcomes.filter((outcome) => outcome !== story.expected);
  say(
    `${wrong.length === 0 ? 'ok' : 'FAILED'}: ${place.name} | ${story.name} | first call ${times[0]} | next ${times[1]} | ${[...new Set(outcomes)].join('; ')}${wrong.length > 0 ? ` (${wrong.length} of ${functions} wrong)` : ''}`,
  );
  return wrong.length === 0;
}

say(`${functions} functions each, stopped for ${frozenMs} ms, ttl ${ttlMs} ms; ms: median (most)`);
const stories = someOf(chosen(STORIES, only), only);
let failed = 0;
for (const open of PLACES) {
  const place = await open();
  for (const isNest of [false, true]) {
    const all = await startAll(place, isNest);
    await Promise.all(all.map((program) => program.finish(STOP_LIMIT_MS)));
  }
  for (const story of stories) if (!(await play(place, story))) failed += 1;
  await place.close();
}
say(`${PLACES.length * stories.length} plays, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
