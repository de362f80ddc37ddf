import { excusedUntil } from '../../../test/history/loss-check.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { touching, union, type Interval, type Timeline } from './intervals.ts';

/** The facts of the history about one start of a process. */
export interface ObservedProcess {
  /** When it did not run, by its own account. Ends with infinity when it was killed. */
  readonly downtime: Timeline;
  /** The time at which it certainly ran; infinity when it was killed before. */
  readonly startedAt: number;
  /** The last time it wrote something down. */
  readonly lastSeenAt: number;
  /** When it ran for the last time before it was killed; infinity when it was not. */
  readonly ranUntil: number;
}

interface Notes {
  readonly stalls: Interval[];
  startedAt: number;
  lastSeenAt: number;
  killedAt: number;
}

/** The part that the names of all starts of a worker have in common: `worker-2` of `worker-2/0`. */
export function placeOf(process: string): string {
  return process.split('/')[0]!;
}

/** The processes of the history, by name. */
export function observeProcesses(events: readonly CampaignEvent[]): Map<string, ObservedProcess> {
  const notes = new Map<string, Notes>();
  const notesOf = (process: string): Notes => {
    const own = notes.get(process) ?? {
      stalls: [],
      startedAt: Infinity,
      lastSeenAt: -Infinity,
      killedAt: Infinity,
    };
    notes.set(process, own);
    return own;
  };
  for (const event of events) {
    if (event.type === 'mark') {
      if (event.mark === 'worker-killed') notesOf(event.worker).killedAt = event.at;
      if (event.mark === 'worker-started') notesOf(event.worker).startedAt = event.at;
      continue;
    }
    const own = notesOf(event.process);
    if (event.type === 'stalled') own.stalls.push(event);
    // A problem may be written down by others, about a process that is dead.
    if (event.type === 'problem') continue;
    const at = event.type === 'stalled' ? (event.killed ? event.from : event.to) : event.at;
    own.startedAt = Math.min(own.startedAt, at);
    own.lastSeenAt = Math.max(own.lastSeenAt, at);
  }
  return new Map(
    Array.from(notes, ([process, { stalls, startedAt, lastSeenAt, killedAt }]) => {
      const downtime = union([...stalls, { from: killedAt, to: Infinity }]);
      const last = downtime.at(-1);
      // The process may also have run in the middle of its last stall, for a moment without a tick, of which it wrote something down.
      const ranUntil =
        last?.to === Infinity ? Math.max(last.from, Math.min(lastSeenAt, killedAt)) : Infinity;
      return [process, { downtime, startedAt, lastSeenAt, ranUntil }];
    }),
  );
}

/**
 * Time from `at`, when something was due, to when it happened, less the time in which the process did not run; stalls in a
 * row count together as long as they are not further apart than `toleranceMs`.
 */
export function lateBy(
  { downtime }: ObservedProcess,
  at: number,
  happenedAt: number,
  toleranceMs: number,
): number {
  const stalls = touching(downtime, at, happenedAt);
  return Math.max(0, happenedAt - (excusedUntil(at, stalls, toleranceMs) - toleranceMs));
}

/** Stalls by which an answer may come too late, also several in a row: shorter ones are lost in the slack of every promise. */
export function longStalls(downtime: Timeline, nodeTimeoutMs: number): Timeline {
  const halfMs = nodeTimeoutMs / 2;
  return union(downtime, halfMs / 2).filter(({ from, to }) => to - from >= halfMs);
}

/** The moment from which on the process ran for `durationMs` up to `at`. */
export function ranSince({ downtime }: ObservedProcess, at: number, durationMs: number): number {
  let from = at - durationMs;
  for (const stall of downtime.toReversed()) {
    if (stall.to > from && stall.from < at) from -= Math.min(stall.to, at) - stall.from;
  }
  return from;
}

/** When something due at `at` must have happened; infinity when the process was killed before. */
export function dueBy({ downtime }: ObservedProcess, at: number, toleranceMs: number): number {
  return excusedUntil(at, touching(downtime, at, Infinity), toleranceMs);
}
