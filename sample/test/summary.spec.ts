import { describe, expect, it } from '@jest/globals';
import { type ActReport, exitCodeOf, summarize } from '../src/stage/summary.ts';

/** Conclusions of the sample from what it saw: `npm start` must fail when a promise was not kept. */

const PROMISES = [
  { id: 'one', text: 'the first promise' },
  { id: 'two', text: 'the second promise' },
];

function report(changes: Partial<ActReport>): ActReport {
  return {
    title: 'An act',
    promises: PROMISES,
    observations: [
      { id: 'one', isKept: true, observed: 'seen' },
      { id: 'two', isKept: true, observed: 'seen too' },
    ],
    ...changes,
  };
}

function verdicts(reports: readonly ActReport[]): string[] {
  return summarize(reports).map(({ verdict }) => verdict);
}

describe('summarize', () => {
  it('returns one row per promise, and exit code 0 when all were kept', () => {
    const rows = summarize([report({})]);
    expect(rows).toEqual([
      { act: 'An act', promised: 'the first promise', observed: 'seen', verdict: 'kept' },
      { act: 'An act', promised: 'the second promise', observed: 'seen too', verdict: 'kept' },
    ]);
    expect(exitCodeOf(rows)).toBe(0);
  });

  it('returns exit code 1 when an observation contradicts its promise', () => {
    const reports = [
      report({}),
      report({
        observations: [
          { id: 'one', isKept: true, observed: 'seen' },
          { id: 'two', isKept: false, observed: 'sold twice' },
        ],
      }),
    ];
    expect(verdicts(reports)).toEqual(['kept', 'kept', 'kept', 'BROKEN']);
    expect(exitCodeOf(summarize(reports))).toBe(1);
  });

  it('counts a promise that was never checked as broken, and says why where it is known', () => {
    const observations = [{ id: 'one', isKept: true, observed: 'seen' }];
    const rows = summarize([
      report({ observations }),
      report({ observations, failure: 'worker 2 ended' }),
    ]);
    expect(rows.map(({ observed }) => observed)).toEqual([
      'seen',
      'it was never checked',
      'seen',
      'worker 2 ended',
    ]);
    expect(rows.map(({ verdict }) => verdict)).toEqual(['kept', 'BROKEN', 'kept', 'BROKEN']);
    expect(exitCodeOf(rows)).toBe(1);
  });

  it('counts a promise with one good and one bad observation as broken', () => {
    const observations = [
      { id: 'one', isKept: true, observed: 'seen' },
      { id: 'one', isKept: false, observed: 'not seen' },
      { id: 'two', isKept: true, observed: 'seen' },
    ];
    expect(verdicts([report({ observations })])).toEqual(['BROKEN', 'kept']);
  });

  it('counts the promises of an act that was not played as neither kept nor broken', () => {
    const skipped = report({ observations: [], skipped: 'the servers belong to others' });
    const rows = summarize([report({}), skipped]);
    expect(rows.slice(2).map(({ verdict }) => verdict)).toEqual(['not played', 'not played']);
    expect(rows[2]?.observed).toBe('the servers belong to others');
    expect(exitCodeOf(rows)).toBe(0);
  });

  it('returns exit code 1 when nothing was played at all', () => {
    expect(exitCodeOf(summarize([report({ observations: [], skipped: 'no servers' })]))).toBe(1);
    expect(exitCodeOf([])).toBe(1);
  });
});
