import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  ALWAYS,
  complement,
  coveredBy,
  coveredMs,
  difference,
  intersection,
  intervalAt,
  touching,
  union,
  type Interval,
  type Timeline,
} from './intervals.ts';

const END = 40;
const INSTANTS = Array.from({ length: END }, (_, at) => at);

const anyInterval = fc
  .tuple(fc.integer({ min: 0, max: END }), fc.integer({ min: 0, max: END }))
  .map(([from, to]): Interval => ({ from, to }));
const anyIntervals = fc.array(anyInterval, { maxLength: 8 });
const anyTimeline = anyIntervals.map((intervals) => union(intervals));

/** The whole numbers that are covered. */
function instants(intervals: readonly Interval[]): number[] {
  return INSTANTS.filter((at) => intervals.some(({ from, to }) => from <= at && at < to));
}

function isInOrder(timeline: Timeline): boolean {
  return timeline.every(
    ({ from, to }, index) => from < to && (index === 0 || from > timeline[index - 1]!.to),
  );
}

describe('intervals agree with sets of instants:', () => {
  it('union', () => {
    fc.assert(
      fc.property(anyIntervals, (intervals) => {
        const timeline = union(intervals);
        expect(isInOrder(timeline)).toBe(true);
        expect(instants(timeline)).toEqual(instants(intervals));
      }),
    );
  });

  it('union over pauses', () => {
    fc.assert(
      fc.property(anyIntervals, fc.nat({ max: 5 }), (intervals, bridgeMs) => {
        const timeline = union(intervals, bridgeMs);
        const gaps = complement(union(intervals)).filter(
          ({ from, to }) => from > -Infinity && to < Infinity && to - from <= bridgeMs,
        );
        expect(instants(timeline)).toEqual(instants([...intervals, ...gaps]));
      }),
    );
  });

  it('intersection, complement and difference', () => {
    fc.assert(
      fc.property(anyTimeline, anyTimeline, (left, right) => {
        const [inLeft, inRight] = [instants(left), instants(right)];
        expect(isInOrder(complement(left))).toBe(true);
        expect(instants(complement(left))).toEqual(INSTANTS.filter((at) => !inLeft.includes(at)));
        expect(instants(intersection(left, right))).toEqual(
          inLeft.filter((at) => inRight.includes(at)),
        );
        expect(instants(difference(left, right))).toEqual(
          inLeft.filter((at) => !inRight.includes(at)),
        );
      }),
    );
  });

  it('what several cover', () => {
    fc.assert(
      fc.property(
        fc.array(anyTimeline, { maxLength: 5 }),
        fc.integer({ min: 1, max: 5 }),
        (all, count) => {
          const timeline = coveredBy(all, count);
          expect(isInOrder(timeline)).toBe(true);
          const covering = (at: number) => all.filter((each) => intervalAt(each, at)).length;
          expect(instants(timeline)).toEqual(INSTANTS.filter((at) => covering(at) >= count));
          expect(coveredBy([ALWAYS, ...all, ALWAYS], count + 2)).toEqual(timeline);
        },
      ),
    );
  });

  it('what is covered, contained and touched', () => {
    fc.assert(
      fc.property(anyTimeline, anyInterval, (timeline, span) => {
        const [from, to] = [Math.min(span.from, span.to), Math.max(span.from, span.to)];
        const inside = instants(timeline).filter((at) => from <= at && at < to);
        expect(coveredMs(timeline, from, to)).toBe(inside.length);
        expect(intervalAt(timeline, from)).toEqual(
          timeline.find((interval) => interval.from <= from && from < interval.to),
        );
        expect(touching(timeline, from, to)).toEqual(
          timeline.filter((interval) => interval.from < to && interval.to > from),
        );
      }),
    );
  });

  it('no interval is the opposite of always', () => {
    expect(complement([])).toEqual(ALWAYS);
    expect(complement(ALWAYS)).toEqual([]);
  });
});
