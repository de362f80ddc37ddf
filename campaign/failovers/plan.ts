import { rm } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { ClusterOfThree } from './cluster.ts';
import { CONTESTANTS, GUARD_MS } from './contestants.ts';
import { MOST_PLAYS, type PartOptions, say, sayHow } from '../part-options.ts';
import { type Failover, type LaneResult, runLane } from './lane.ts';
import { Sentinels } from './sentinels.ts';
import { OneAddress, type Topology } from './topology.ts';

/** A topology, a way to lock, and what is expected of it. */
export interface Schedule {
  readonly name: string;
  readonly start: () => Promise<Topology>;
  readonly contestant: string;
  readonly faults: readonly string[];
  /** A control: the judge has to see overlaps. */
  readonly overlaps?: true;
}

const address = { start: () => OneAddress.start() };
/** The fault in which a lock is taken as late as the lag allows, while the promotion comes with the cut. */
const LATEST = [OneAddress.faults[1]];

export const SCHEDULES: readonly Schedule[] = [
  { name: 'one address', ...address, faults: OneAddress.faults, contestant: 'failover' },
  {
    name: 'sentinel',
    start: () => Sentinels.start(false),
    faults: ['killed', 'frozen'],
    contestant: 'failover',
  },
  {
    name: 'sentinel, partition',
    start: () => Sentinels.start(true),
    faults: ['partition'],
    contestant: 'failover',
  },
  {
    name: 'cluster',
    start: () => ClusterOfThree.start(),
    faults: ClusterOfThree.faults,
    contestant: 'failover',
  },
  {
    name: 'limit: a frozen primary goes on',
    ...address,
    faults: OneAddress.uncovered,
    contestant: 'failover',
    overlaps: true,
  },
  ...Object.keys(CONTESTANTS)
    .filter((contestant) => contestant !== 'failover')
    .map((contestant): Schedule => {
      const name = `control: ${contestant}`;
      return { name, ...address, contestant, faults: LATEST, overlaps: true };
    }),
];

interface Lane {
  readonly schedule: Schedule;
  readonly faults: readonly string[];
  readonly seed: number;
}

type Results = ReadonlyMap<Schedule, LaneResult[]>;

/** The number of servers that fail over side by side. */
const LANES = 6;
/** The share of the runs of the topologies that a control does. */
const CONTROL_SHARE = 0.2;
const LEAST_CONTROLS = 6;
const RUNS_PER_LANE = 12;
const MOST_MESSAGES = 5;

/** Runs the schedules and says what they showed; true when that is as expected. A run that broke a promise is never repeated. */
export async function runPlan(
  schedules: readonly Schedule[],
  runs: number,
  options: PartOptions,
): Promise<boolean> {
  const startedAtMs = performance.now();
  const results: Results = new Map(schedules.map((schedule) => [schedule, []]));
  const failed = new Set<Schedule>();
  for (let play = 0; play < MOST_PLAYS; play += 1) {
    const due = schedules.filter(
      (schedule) =>
        play === 0 ||
        (schedule.overlaps && !failed.has(schedule) && !overlapped(results.get(schedule)!)),
    );
    const lanes = due.flatMap((schedule) =>
      lanesOf(schedule, runs, options.seed + SCHEDULES.indexOf(schedule) * 1_000 + play * 100),
    );
    await runLanes(lanes, results, failed);
  }
  say(
    `| schedule | fault | ${FIGURES.join(' | ')} |\n| -- | -- |${' -- |'.repeat(FIGURES.length)}`,
  );
  for (const [schedule, of] of results) {
    sayFigures(schedule, of);
    if (!failed.has(schedule) && isAsExpected(schedule, of)) continue;
    failed.add(schedule);
    say(`FAILED: ${schedule.name}`);
    sayHow(`failovers/${schedule.name}`, options);
  }
  const seconds = Math.round((performance.now() - startedAtMs) / 1_000);
  const loads = loadavg().map((load) => load.toFixed(1));
  say(
    `${failed.size} of ${schedules.length} schedules failed in ${seconds} s, load ${loads.join(', ')}`,
  );
  return failed.size === 0;
}

/** Carries out the lanes, so many at once, and adds what they show to the results, and what could not be carried out to the failed. */
async function runLanes(
  lanes: readonly Lane[],
  results: Results,
  failed: Set<Schedule>,
): Promise<void> {
  const waiting = lanes.values();
  const work = async (): Promise<void> => {
    for (const { schedule, faults, seed } of waiting) {
      const name = `${schedule.name} ${seed}`;
      try {
        const { contestant } = schedule;
        const topology = await schedule.start();
        const result = await runLane(topology, { name, contestant, faults, seed });
        await topology.close();
        results.get(schedule)!.push(result);
        const { messages, path } = result;
        if (schedule.overlaps) await rm(path, { force: true });
        else if (messages.length > 0)
          say([name, ...messages.slice(0, MOST_MESSAGES), `History: ${path}`].join('\n'));
      } catch (error) {
        failed.add(schedule);
        say(`${name}: ${error instanceof Error ? error.stack : String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, work));
}

const overlapped = (of: readonly LaneResult[]): boolean =>
  of.some(({ failovers }) => failovers.some(({ overlaps }) => overlaps > 0));

function isAsExpected(schedule: Schedule, of: readonly LaneResult[]): boolean {
  const all = of.flatMap(({ failovers }) => failovers);
  if (all.length === 0 || of.some(({ staleWrites }) => staleWrites > 0)) return false;
  if (schedule.overlaps) return overlapped(of);
  return !overlapped(of) && all.every(({ inversions }) => inversions === 0);
}

function sayFigures(schedule: Schedule, of: readonly LaneResult[]): void {
  const all = of.flatMap(({ failovers }) => failovers);
  for (const fault of new Set(all.map((each) => each.fault))) {
    const own = all.filter((each) => each.fault === fault);
    say(row(schedule, own, fault));
  }
  const sum = (figure: 'writes' | 'refusedWrites' | 'staleWrites') =>
    of.reduce((total, each) => total + each[figure], 0);
  say(
    `${schedule.name}: ${sum('writes')} writes, ${sum('refusedWrites')} refused by the fence, ${sum('staleWrites')} stale ones taken`,
  );
}

const FIGURES = [
  'failovers',
  'overlaps',
  'longest, ms',
  'inversions',
  'longest without grant, ms',
  '… of them later than W + 2 s',
  'latest vote of the old side, ms',
  'smallest margin, ms',
];
const LATEST_GRANT_MS = GUARD_MS + 2_000;

/** Longest time without a grant is that of the new side since the promotion; margins are from the last validity of the old side. */
function row({ name }: Schedule, of: readonly Failover[], fault: string): string {
  const most = (figure: (each: Failover) => number) => Math.round(Math.max(...of.map(figure)));
  const total = (figure: (each: Failover) => number) =>
    of.reduce((sum, each) => sum + figure(each), 0);
  const figures = [
    of.length,
    total(({ overlaps }) => overlaps),
    most(({ longestOverlapMs }) => longestOverlapMs),
    total(({ inversions }) => inversions),
    most(({ grantMs }) => grantMs),
    of.filter(({ grantMs }) => grantMs > LATEST_GRANT_MS).length,
    most(({ latestOldMs }) => latestOldMs),
    -most(({ marginMs }) => -marginMs),
  ];
  return `| ${name} | ${fault} | ${figures.join(' | ')} |`;
}

/** Divides the runs into lanes, every fault equally often. */
function lanesOf(schedule: Schedule, runs: number, seed: number): Lane[] {
  const { faults } = schedule;
  const count = schedule.overlaps
    ? Math.max(LEAST_CONTROLS, Math.ceil(runs * CONTROL_SHARE))
    : runs;
  const all = Array.from({ length: count }, (_, index) => faults[index % faults.length]!);
  const lanes: Lane[] = [];
  for (let from = 0; from < count; from += RUNS_PER_LANE)
    lanes.push({ schedule, faults: all.slice(from, from + RUNS_PER_LANE), seed: seed + from });
  return lanes;
}
