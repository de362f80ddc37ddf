/** A span from `from` up to, without, `to`; ms on the clock of the history. */
export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** Disjoint intervals in order, none of them empty. */
export type Timeline = readonly Interval[];

/** The timeline of all time for which the history can speak. */
export const ALWAYS: Timeline = [{ from: -Infinity, to: Infinity }];

/** The timeline that any of `intervals` covers; pauses of up to `bridgeMs` between them count as covered. */
export function union(intervals: readonly Interval[], bridgeMs = 0): Timeline {
  const sorted = intervals.filter(({ from, to }) => from < to).sort((a, b) => a.from - b.from);
  const joined: { from: number; to: number }[] = [];
  for (const { from, to } of sorted) {
    const last = joined.at(-1);
    if (last && from <= last.to + bridgeMs) last.to = Math.max(last.to, to);
    else joined.push({ from, to });
  }
  return joined;
}

/** The timeline that both cover. */
export function intersection(left: Timeline, right: Timeline): Timeline {
  const common: Interval[] = [];
  let index = 0;
  for (const { from, to } of left) {
    while (index < right.length && right[index]!.to <= from) index += 1;
    for (let other = index; other < right.length && right[other]!.from < to; other += 1) {
      const begin = Math.max(from, right[other]!.from);
      const end = Math.min(to, right[other]!.to);
      if (begin < end) common.push({ from: begin, to: end });
    }
  }
  return common;
}

/** The timeline that `timeline` does not cover. */
export function complement(timeline: Timeline): Timeline {
  const gaps: Interval[] = [];
  let from = -Infinity;
  for (const interval of timeline) {
    if (from < interval.from) gaps.push({ from, to: interval.from });
    from = interval.to;
  }
  if (from < Infinity) gaps.push({ from, to: Infinity });
  return gaps;
}

/** The timeline that `timeline` covers and `without` does not. */
export function difference(timeline: Timeline, without: Timeline): Timeline {
  return without.length === 0 ? timeline : intersection(timeline, complement(without));
}

/** The timeline that at least `count` of `timelines` cover. */
export function coveredBy(timelines: readonly Timeline[], count: number): Timeline {
  const steps = timelines.flatMap((timeline) =>
    timeline.flatMap(({ from, to }) => [
      { at: from, by: 1 },
      { at: to, by: -1 },
    ]),
  );
  const spans: Interval[] = [];
  let covering = 0;
  let from = -Infinity;
  // Differences of infinities would be no numbers.
  for (const { at, by } of steps.sort((a, b) => Number(a.at > b.at) - Number(a.at < b.at))) {
    if (covering >= count) spans.push({ from, to: at });
    covering += by;
    from = at;
  }
  return union(spans);
}

/** The intervals of `timeline` that begin before `to` and end after `from`. */
export function touching(timeline: Timeline, from: number, to: number): Timeline {
  const first = firstEndingAfter(timeline, from);
  let end = first;
  while (end < timeline.length && timeline[end]!.from < to) end += 1;
  return timeline.slice(first, end);
}

/** The interval that contains `at`. */
export function intervalAt(timeline: Timeline, at: number): Interval | undefined {
  const interval = timeline[firstEndingAfter(timeline, at)];
  return interval && interval.from <= at ? interval : undefined;
}

/** The number of ms of `from`..`to` that are covered. */
export function coveredMs(timeline: Timeline, from: number, to: number): number {
  return touching(timeline, from, to).reduce(
    (total, interval) =>
      total + Math.max(0, Math.min(to, interval.to) - Math.max(from, interval.from)),
    0,
  );
}

function firstEndingAfter(timeline: Timeline, at: number): number {
  let low = 0;
  let high = timeline.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (timeline[middle]!.to > at) high = middle;
    else low = middle + 1;
  }
  return low;
}
