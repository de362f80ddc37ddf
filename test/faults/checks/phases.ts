import type { MarkEvent } from '../campaign-event.ts';
import { difference, intersection, union, type Interval, type Timeline } from './intervals.ts';

/** When which promises about speed hold. */
export interface Phases {
  /** Between measuring and measured. */
  readonly measured: Timeline;
  /** Measured, and a quorum is healthy and may vote. */
  readonly healthy: Timeline;
  /** Healthy for so long that everybody has come back. */
  readonly settled: Timeline;
  /** The ends of outages, as far as they are measured. */
  readonly recoveries: readonly Recovery[];
}

export interface Recovery {
  /** From here on servers may vote. */
  readonly votesFrom: number;
  /** The next outage, or the end of the measuring. */
  readonly until: number;
  readonly healedAt: number;
}

type MarkOf<Name extends MarkEvent['mark']> = Extract<MarkEvent, { mark: Name }>;

/** Where no mark ends a phase, it lasts up to `endsAt`: the run was broken off. */
export function phasesOf(marks: readonly MarkEvent[], recoveryMs: number, endsAt: number): Phases {
  const measured = spansBetween(marks, 'measuring', 'measured', endsAt);
  const lost = spansBetween(marks, 'quorum-lost', 'quorum-healed', Infinity);
  const guards = marks.filter(
    (mark): mark is MarkOf<'quorum-healed' | 'majority-forgot'> => 'guardMs' in mark,
  );
  const after = (extraMs: number): Timeline =>
    union([
      ...lost,
      ...guards.map(({ at, guardMs }) => ({ from: at, to: at + guardMs + extraMs })),
    ]);
  return {
    measured,
    healthy: difference(measured, after(0)),
    settled: difference(measured, after(recoveryMs)),
    recoveries: guards
      .filter(({ mark }) => mark === 'quorum-healed')
      .flatMap(({ at, guardMs }) => recoveryOf(at, guardMs, measured, marks)),
  };
}

function recoveryOf(
  healedAt: number,
  guardMs: number,
  measured: Timeline,
  marks: readonly MarkEvent[],
): Recovery[] {
  const [within] = intersection(measured, [{ from: healedAt, to: Infinity }]);
  if (!within || within.from > healedAt) return [];
  const next = marks.find(
    ({ mark, at }) => (mark === 'quorum-lost' || mark === 'majority-forgot') && at > healedAt,
  );
  const until = Math.min(within.to, next?.at ?? Infinity);
  return [{ healedAt, votesFrom: healedAt + guardMs, until }];
}

/** Expects `marks` in order of time. */
function spansBetween(
  marks: readonly MarkEvent[],
  begin: MarkEvent['mark'],
  end: MarkEvent['mark'],
  endsAt: number,
): Timeline {
  const spans: Interval[] = [];
  let from: number | undefined;
  for (const { mark, at } of marks) {
    if (mark === begin) from ??= at;
    else if (mark === end && from !== undefined) {
      spans.push({ from, to: at });
      from = undefined;
    }
  }
  if (from !== undefined) spans.push({ from, to: endsAt });
  return union(spans);
}
