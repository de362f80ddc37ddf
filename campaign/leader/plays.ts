import { setTimeout as sleep } from 'node:timers/promises';
import { groupBy } from '../../test/history/group-by.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import type { Edit } from '../../test/support/program.ts';
import type { Outcome, Play } from '../carry-out.ts';
import type { CampaignEvent } from '../faults/campaign-event.ts';
import { collectFacts, type RunFacts } from '../faults/judge/facts.ts';
import { coveredMs, union, type Interval } from '../faults/judge/intervals.ts';
import { checkLocks } from '../faults/judge/locks.ts';
import { checkRecords } from '../faults/judge/records.ts';
import { RUN_LIMITS, type CampaignViolation } from '../faults/judge/verdict.ts';
import { Stage, type Disturbance, type Fault } from './stage.ts';
import { TTL_MS } from './worker-settings.ts';

/** A fleet whose leader is disturbed again and again, or one that is broken on purpose. */
export interface LeaderPlay extends Play {
  readonly what: string;
  readonly faults: readonly Fault[];
  readonly edits: readonly Edit[];
}

const LEADERSHIP = 'lib/leader/leadership.ts';
const ALL_FAULTS = ['kill', 'freeze', 'cutOff', 'block', 'shutDown'] as const;

export const PLAYS: readonly LeaderPlay[] = [
  {
    name: 'fleet',
    what: 'five processes, whose leader is killed, frozen, cut off, blocked and shut down in turns',
    faults: ALL_FAULTS,
    minutes: 20,
    quickMinutes: 1,
    edits: [],
  },
  {
    name: 'control deposed',
    what: 'broken on purpose: a leader whose lock is lost goes on',
    faults: ['cutOff'],
    minutes: 0.5,
    quickMinutes: 0.5,
    edits: [
      {
        file: LEADERSHIP,
        find: '[lock.signal, this.#stopped.signal',
        replace: '[this.#stopped.signal',
      },
      { file: LEADERSHIP, find: 'this.#term.lock.isHeld && ', replace: '' },
    ],
    caughtBy: ['step-outside-validity'],
  },
  {
    name: 'control fence',
    what: 'broken on purpose: a leader writes without its fence',
    faults: ['freeze', 'block'],
    minutes: 0.5,
    quickMinutes: 0.5,
    edits: [
      {
        file: 'campaign/leader/worker.ts',
        find: 'fence.transaction(token, (transaction) =>',
        replace: 'Promise.resolve(pool).then((transaction) =>',
      },
    ],
    caughtBy: ['stale-write-accepted', 'lost-update'],
  },
  {
    name: 'control shutdown',
    what: 'broken on purpose: a shutdown leaves the lock to its ttl',
    faults: ['shutDown'],
    minutes: 0.5,
    quickMinutes: 0.5,
    edits: [
      {
        file: LEADERSHIP,
        find: 'settlesIn(limitMs, this.#work)',
        replace: 'settlesIn(limitMs, new Promise(() => undefined))',
      },
    ],
    caughtBy: ['slow-recovery'],
  },
];

/** What the next leader may take longer than the ttl of the one before. */
const SLACK_MS = 1_000;

export async function play(
  { faults, edits }: LeaderPlay,
  { seed, durationMs }: { readonly seed: number; readonly durationMs: number },
): Promise<Outcome> {
  const stage = await Stage.open(seed, edits);
  try {
    const until = historyNow() + durationMs;
    for (let round = 0; historyNow() < until; round += 1)
      await stage.disturbLeader(faults[round % faults.length]!);
    await sleep(2 * TTL_MS);
    return judge(await stage.finish(), stage.disturbances);
  } finally {
    await stage.end();
  }
}

function judge(history: readonly CampaignEvent[], disturbances: readonly Disturbance[]): Outcome {
  const facts = collectFacts(history, { ...RUN_LIMITS, nodes: 3, ttlMs: TTL_MS });
  const records = checkRecords(facts);
  const problems = facts.of('problem').map(({ kind: rule, process, message }) => ({
    rule,
    message: `${process}: ${message}`,
  }));
  const changes = disturbances.map((each) => ({ ...each, ...takenMs(facts, each) }));
  const late = changes.flatMap(({ fault, process, at, lateMs, tookMs }): CampaignViolation[] =>
    lateMs <= 0
      ? []
      : [
          {
            rule: 'slow-recovery',
            at,
            message: `the next leader after ${fault} of ${process} came ${Math.round(tookMs)} ms later, ${Math.round(lateMs)} ms too late`,
          },
        ],
  );
  const longest = (isMeant: (fault: Fault) => boolean) =>
    Math.round(
      Math.max(0, ...changes.flatMap(({ fault, tookMs }) => (isMeant(fault) ? tookMs : []))),
    );
  const { unfencedStaleWrites, fencedRefusals } = records.measures;
  const counts = groupBy(disturbances, ({ fault }) => [fault]);
  return {
    violations: [...checkLocks(facts).violations, ...records.violations, ...problems, ...late],
    withoutEffect: unfencedStaleWrites === 0 ? 'no write was stale' : undefined,
    figures: {
      terms: facts.holdings.length,
      ...Object.fromEntries(Array.from(counts, ([fault, each]) => [fault, each.length])),
      'ms to the next leader at most': longest((fault) => fault !== 'shutDown'),
      'ms after a shutdown': longest((fault) => fault === 'shutDown'),
      writes: facts.of('access').filter(({ view, accepted }) => view === 'fenced' && accepted)
        .length,
      'stale writes: unfenced took': unfencedStaleWrites,
      'the fence refused': fencedRefusals,
    },
    history,
  };
}

/**
 * How long it took until another process led, and how much of that was too long. Time in which one of the others, or the network
 * between them, did not run does not count.
 */
function takenMs(
  { holdings, lockHistory }: RunFacts,
  { fault, process, at }: Disturbance,
): { readonly tookMs: number; readonly lateMs: number } {
  const next = holdings.find(({ granted }) => granted.at > at && granted.process !== process);
  const endedAt = next?.granted.at ?? Number.POSITIVE_INFINITY;
  const stalls = lockHistory.filter(
    (event) => event.type === 'stalled' && event.process !== process,
  );
  const excusedMs = coveredMs(union(stalls as Interval[]), at, endedAt);
  const limitMs = (fault === 'shutDown' ? 0 : TTL_MS) + SLACK_MS;
  return { tookMs: endedAt - at, lateMs: endedAt - at - limitMs - excusedMs };
}
