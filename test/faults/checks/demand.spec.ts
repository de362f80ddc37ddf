import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { AnsweredEvent, AskedEvent } from '../campaign-event.ts';
import { collectCalls } from './calls.ts';
import { demandFor } from './demand.ts';
import { intervalAt, union, type Timeline } from './intervals.ts';
import { answered, asked } from './written-events.ts';

const END = 400;
/** Pauses up to this long are bridged, as in the file that is tested. */
const PAUSE_MS = 50;

interface WrittenCall {
  readonly process: string;
  readonly at: number;
  readonly tookMs: number;
  readonly isSet: boolean;
  readonly waitMs: number;
}

const anyCalls = fc.array(
  fc.record<WrittenCall>({
    process: fc.constantFrom('p', 'q'),
    at: fc.integer({ min: 0, max: END }),
    tookMs: fc.integer({ min: 0, max: 90 }),
    isSet: fc.boolean(),
    waitMs: fc.constantFrom(0, 30, END),
  }),
  { maxLength: 14 },
);
const anyDowntime = fc
  .array(fc.tuple(fc.integer({ min: 0, max: END }), fc.integer({ min: 0, max: 80 })), {
    maxLength: 3,
  })
  .map((stalls) => union(stalls.map(([from, ms]) => ({ from, to: from + ms }))));

/** The same, instant by instant. */
function askedAt(calls: readonly WrittenCall[], downtime: Timeline): boolean[] {
  const instants = Array.from({ length: 2 * END }, (_, index) => index + 0.5);
  const asks = instants.map((at) =>
    ['p', 'q'].some((process) => {
      const line = calls
        .filter((call) => call.process === process && call.at < at && at < call.at + call.tookMs)
        .sort((a, b) => a.at - b.at);
      const waits = line.some((call) => !call.isSet && at < call.at + call.waitMs);
      const runs = process === 'q' || !intervalAt(downtime, at);
      return waits && runs && !line[0]!.isSet;
    }),
  );
  let last = -Infinity;
  for (const [index, isAsked] of [...asks].entries()) {
    if (!isAsked) continue;
    if (index - last - 1 <= PAUSE_MS) asks.fill(true, last + 1, index);
    last = index;
  }
  return asks;
}

describe('the demand for a key', () => {
  it('is at every instant what the calls of that instant say', () => {
    fc.assert(
      fc.property(anyCalls, anyDowntime, (written, downtime) => {
        const questions: AskedEvent[] = [];
        const answers: AnsweredEvent[] = [];
        for (const [index, { process, at, tookMs, isSet, waitMs }] of written.entries()) {
          const keys = isSet ? ['row', 'seat'] : ['seat'];
          questions.push(asked(`${index}`, at, { process, keys, waitMs }));
          answers.push(answered(`${index}`, at + tookMs, { process }));
        }
        const processes = new Map([
          ['p', { downtime, lastSeenAt: END }],
          ['q', { downtime: [], lastSeenAt: END }],
        ]);
        const demand = demandFor(collectCalls(questions, answers, processes), processes);
        const found = Array.from(
          { length: 2 * END },
          (_, index) => intervalAt(demand, index + 0.5) !== undefined,
        );
        expect(found).toEqual(askedAt(written, downtime));
      }),
      { numRuns: 300 },
    );
  });
});
