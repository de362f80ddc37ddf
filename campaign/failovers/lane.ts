import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CampaignEvent } from '../faults/campaign-event.ts';
import { checkHistory, type Violation } from '../../test/history/check-history.ts';
import { HistoryFile, readHistory } from '../../test/history/history-file.ts';
import { collectHoldings } from '../../test/history/holding.ts';
import { historyNow, type LockHistoryEvent } from '../../test/history/lock-history.ts';
import { eventually } from '../../test/support/eventually.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import { historyPath } from '../part-options.ts';
import { CONTESTANTS, GUARD_MS, TTL_MS, type Contestant } from './contestants.ts';
import type { Side, Topology } from './topology.ts';
import { Workload } from './workload.ts';

const SIDES: readonly Side[] = ['old', 'new'];
const CLIENTS_PER_SIDE = 2;
/** Time after the first grant of the new primary, and after the end of what it knows of locks of before, in which others must keep away. */
const WATCHED_MS = 1_500;

/** Findings about one failover. */
export interface Failover {
  readonly fault: string;
  /** The time without grants on the new side; -1: there was none. */
  grantMs: number;
  /** Last vote or extension that the old side sent and that counted, after the promotion. */
  latestOldMs: number;
  /** Time from the end of the last validity on the old side to the next grant of that key on the new one; negative: they overlap. */
  marginMs: number;
  overlaps: number;
  longestOverlapMs: number;
  inversions: number;
}

export interface LaneResult {
  readonly failovers: readonly Failover[];
  readonly writes: number;
  readonly refusedWrites: number;
  readonly staleWrites: number;
  /** The path of the history, which is kept when something overlapped. */
  readonly path: string;
  readonly messages: readonly string[];
}

export interface LaneSettings {
  readonly name: string;
  readonly contestant: string;
  /** The fault of each failover, in their order. */
  readonly faults: readonly string[];
  readonly seed: number;
}

/** Lets one Redis fail over as often as there are faults, under a load of locks from both sides, and judges what holders believed. */
export async function runLane(
  topology: Topology,
  { name, contestant, faults, seed }: LaneSettings,
): Promise<LaneResult> {
  const random = new SeededRandom(seed);
  const path = historyPath(`failover ${name}`);
  await rm(path, { force: true });
  // It stays open: recorders of stalls write until the process ends.
  const file = new HistoryFile<CampaignEvent>(path);
  const contestants: Contestant[] = [];
  for (const side of SIDES) {
    for (let index = 1; index <= CLIENTS_PER_SIDE; index += 1) {
      const { keyPrefix, inputs } = topology;
      const process = `${side}-${index}`;
      const settings = { input: inputs[side], keyPrefix, side, name: process, file };
      contestants.push(await CONTESTANTS[contestant]!(settings));
    }
  }
  const workload = new Workload(contestants, random);
  const granted = (since: number) =>
    eventually(() => {
      if (workload.newGrantAt <= since) throw new Error('no grant on the new side');
    });
  await granted(0);
  const times: { fault: string; from: number; promotedAt: number }[] = [];
  for (const fault of faults) {
    await sleep(random.between(300, 1_000));
    const from = historyNow();
    const promotedAt = await topology.fail(fault, random);
    times.push({ fault, from, promotedAt });
    await granted(promotedAt);
    await sleep(Math.max(0, promotedAt + TTL_MS - historyNow()) + WATCHED_MS);
    await topology.heal();
  }
  const end = historyNow();
  await workload.end();
  await Promise.all(contestants.map((each) => each.close()));
  const history = locksOf(path);
  const violations = checkHistory(history).filter(({ rule }) => RULES.includes(rule));
  const failovers = times.map((time, index) =>
    judge(time, times[index + 1]?.from ?? end, history, violations),
  );
  const { writes, refused: refusedWrites, staleTaken: staleWrites } = workload.record;
  if (violations.length === 0) await rm(path, { force: true });
  const messages = violations.map(({ rule, message }) => `${rule}: ${message}`);
  return { failovers, writes, refusedWrites, staleWrites, path, messages };
}

/** Nothing is granted by a new primary before that, under any guard of the schedules. */
const NO_GRANT_MS = GUARD_MS - 1_100;
const ORDER: readonly Violation['rule'][] = ['duplicate-token', 'decreasing-token'];
const RULES: readonly Violation['rule'][] = ['overlapping-validity', ...ORDER];

function locksOf(path: string): LockHistoryEvent[] {
  const types = ['granted', 'extended', 'step', 'released', 'lost', 'stalled'];
  return readHistory<LockHistoryEvent>(path).filter(({ type }) => types.includes(type));
}

function judge(
  { fault, from, promotedAt }: { fault: string; from: number; promotedAt: number },
  to: number,
  history: readonly LockHistoryEvent[],
  violations: readonly Violation[],
): Failover {
  const holdings = collectHoldings(history);
  const isOld = ({ granted }: (typeof holdings)[number]) => granted.process.startsWith('old');
  const firstOn = (key?: string) =>
    holdings.find(
      (each) =>
        !isOld(each) &&
        each.granted.at > promotedAt &&
        each.granted.at < to &&
        (key === undefined || each.granted.keys[0] === key),
    )?.granted.at;
  const first = firstOn();
  let [marginMs, latestOldMs] = [Number.POSITIVE_INFINITY, -1];
  for (const holding of holdings.filter(isOld)) {
    const { granted, extensions, endedAt, validUntil } = holding;
    const next = firstOn(granted.keys[0]);
    const isOfOldPrimary = granted.at > from - 10_000 && granted.at < promotedAt + NO_GRANT_MS;
    if (!isOfOldPrimary || next === undefined || granted.at > next) continue;
    marginMs = Math.min(marginMs, next - endedAt);
    const sent = Math.max(granted.startedAt, ...extensions.map(({ at }) => at));
    if (validUntil > promotedAt) latestOldMs = Math.max(latestOldMs, sent - promotedAt);
  }
  const own = violations.filter(({ at }) => at >= from && at < to);
  const overlaps = own.filter(({ rule }) => rule === 'overlapping-validity');
  return {
    fault,
    grantMs: first === undefined ? -1 : first - promotedAt,
    latestOldMs,
    marginMs,
    overlaps: overlaps.length,
    longestOverlapMs: Math.max(0, ...overlaps.map(({ overlapMs = 0 }) => overlapMs)),
    inversions: own.length - overlaps.length,
  };
}
