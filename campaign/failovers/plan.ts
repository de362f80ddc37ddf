import { loadavg } from 'node:os';
import { ClusterOfThree } from './cluster.ts';
import { CONTESTANTS, GUARD_MS } from './contestants.ts';
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
/** Fault in which a lock is taken as late as the lag allows, while the promotion comes with the cut. */
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

export interface PlanSettings {
  readonly runs: number;
  readonly seed: number;
  readonly lanes: number;
}

interface Lane {
  readonly schedule: Schedule;
  readonly faults: readonly string[];
  readonly seed: number;
}

/** Share of the runs of the topologies that a control does. */
const CONTROL_SHARE = 0.2;
const LEAST_CONTROLS = 6;
const MOST_MESSAGES = 5;
const RUNS_PER_LANE = 12;

/** Runs the schedules, so many lanes at once, and says what they showed; true when that is as expected. */
export async function runPlan(
  schedules: readonly Schedule[],
  { runs, seed, lanes }: PlanSettings,
  say: (text: string) => unknown,
): Promise<boolean> {
  const startedAtMs = performance.now();
  const plan = schedules.flatMap((schedule, index) =>
    lanesOf(schedule, runs, seed + index * 1_000),
  );
  const results = new Map<Schedule, LaneResult[]>(schedules.map((schedule) => [schedule, []]));
  let isGood = true;
  const waiting = plan.values();
  const work = async (): Promise<void> => {
    for (const { schedule, faults, seed: own } of waiting) {
      try {
        const { contestant } = schedule;
        const topology = await schedule.start();
        const name = `${schedule.name} ${own}`;
        const result = await runLane(topology, { name, contestant, faults, seed: own });
        await topology.close();
        results.get(schedule)!.push(result);
        const { messages, path } = result;
        if (messages.length > 0 && !schedule.overlaps)
          say([`${name}: history in ${path}`, ...messages.slice(0, MOST_MESSAGES)].join('\n'));
      } catch (error) {
        isGood = false;
        say(
          `${schedule.name}, seed ${own}: ${error instanceof Error ? error.stack : String(error)}`,
        );
      }
    }
  };
  await Promise.all(Array.from({ length: lanes }, work));
  say(
    `| schedule | fault | ${FIGURES.join(' | ')} |\n| -- | -- |${' -- |'.repeat(FIGURES.length)}`,
  );
  for (const [schedule, of] of results) {
    const all = of.flatMap(({ failovers }) => failovers);
    const faults = new Set(all.map(({ fault }) => fault));
    for (const fault of faults)
      say(
        row(
          schedule,
          all.filter((each) => each.fault === fault),
          fault,
        ),
      );
    const sum = (figure: 'writes' | 'refusedWrites' | 'staleWrites') =>
      of.reduce((total, each) => total + each[figure], 0);
    say(
      `${schedule.name}: ${sum('writes')} writes, ${sum('refusedWrites')} refused by the fence, ${sum('staleWrites')} stale ones taken`,
    );
    isGood &&= sum('staleWrites') === 0 && all.length > 0;
    const broken = all.some(({ overlaps }) => overlaps > 0);
    isGood &&= broken === (schedule.overlaps === true);
    isGood &&= schedule.overlaps === true || all.every(({ inversions }) => inversions === 0);
  }
  const seconds = Math.round((performance.now() - startedAtMs) / 1_000);
  const loads = loadavg()
    .map((load) => load.toFixed(1))
    .join(', ');
  say(`seed ${seed}, ${seconds} s, load ${loads}: ${isGood ? 'as expected' : 'NOT as expected'}`);
  return isGood;
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
