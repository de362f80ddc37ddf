import { describe, expect, it } from '@jest/globals';
import { describeVerdict } from './describe-verdict.ts';
import {
  access,
  ELSEWHERE,
  granted,
  held,
  judge,
  mark,
  problem,
  released,
  stalled,
  waiter,
} from './written-events.ts';

const OVERLAP = [
  mark(4_100, { mark: 'note', text: 'server 3 is frozen' }),
  ...held('a', 5_000, 5_100, { token: 1 }),
  ...held('b', 5_050.25, 5_200, { token: 2 }),
];

function describeRun(events: Parameters<typeof judge>[0]): string {
  return describeVerdict(judge(events), [...ELSEWHERE, ...events]);
}

describe('the description of a verdict', () => {
  it('is short when nothing is wrong', () => {
    expect(describeRun([])).toBe('No violation.');
  });

  it('counts by rule, shows each, and the history around the first', () => {
    const errors = [problem('raw-error', 8_000), problem('raw-error', 8_001)];
    const text = describeRun([...OVERLAP, ...errors]);
    expect(text.split('\n')[0]).toBe(
      '4 violations: 2 raw-error, 1 overlapping-validity, 1 fenced-mutex',
    );
    expect(text).toContain("- overlapping-validity: 'seat': two valid holders for 49.750 ms");
    expect(text).toContain("Around overlapping-validity at 5050.250 ms, 'seat', 7 of 7 events:");
    const excerpt = text.split('events:\n')[1]!.split('\n');
    expect(excerpt).toEqual([
      '   -950.3 campaign mark mark=note text=server 3 is frozen',
      '    -50.3 process-a granted seat holder=a token=1 startedAt=-52.3 validUntil=+937.8 held=true',
      '     +0.0 process-b granted seat holder=b token=2 startedAt=-2.0 validUntil=+988.0 held=true',
      '    +49.8 process-a released seat holder=a',
      '    +50.8 process-a release-answered seat holder=a',
      '   +149.8 process-b released seat holder=b',
      '   +150.8 process-b release-answered seat holder=b',
    ]);
  });

  it('leaves out other keys and other times, but not what happened to processes', () => {
    const events = [
      ...OVERLAP,
      ...waiter('x', 5_000, 5_001, { keys: ['row'], waitMs: 0 }),
      ...held('r', 5_002, 5_003, { keys: ['row'] }),
      access('read', 'r', 5_002.5, 0, { key: 'row' }),
      stalled('process-z', 5_010, 5_040),
      ...held('d', 6_600, 6_601, { token: 3 }),
    ];
    const excerpt = describeRun(events).split('events:\n')[1]!;
    expect(excerpt).not.toMatch(/row|holder=d/);
    expect(excerpt).toContain('    -10.3 process-z stalled from=-40.3 to=-10.3');
  });

  it('shows a set of keys, and answers of calls, for each key of the violation', () => {
    const events = [
      ...waiter('s', 5_000, 5_900, { keys: ['row', 'seat'], waitMs: 10 }),
      ...held('r', 5_950, 5_960, { keys: ['row'] }),
    ];
    const excerpt = describeRun(events).split('events:\n')[1]!;
    expect(excerpt).toContain('process-s asked row,seat call=s waitMs=10');
    expect(excerpt).toContain('process-s answered row,seat call=s outcome=LOCK_BUSY');
    expect(excerpt).toContain('process-r granted row');
  });

  it('shows what a process did that broke something without a key, each event on one line', () => {
    const broken = { ...problem('uncaught-exception', 5_000), message: 'Error: oh\n    at x\n' };
    const text = describeRun([
      broken,
      granted('a', 4_990),
      released('a', 4_995),
      ...held('b', 4_996, 4_999, { token: 2 }),
    ]);
    expect(text).toContain('- uncaught-exception: process-a: Error: oh at x');
    const excerpt = text.split('events:\n')[1]!.split('\n');
    expect(excerpt).toHaveLength(3);
    expect(excerpt.at(-1)).toBe(
      '     +0.0 process-a problem kind=uncaught-exception message=Error: oh at x',
    );
  });

  it('stays readable however much is wrong', () => {
    const events = Array.from({ length: 400 }, (_, index) =>
      held(`h${index}`, 5_000 + index, 5_000.5 + index),
    ).flat();
    const text = describeRun(events);
    const count = judge(events).violations.length;
    expect(count).toBeGreaterThan(390);
    expect(text).toContain(`  and ${count - 10} more`);
    expect(text).toMatch(/200 of \d{4} events:/);
    expect(text.split('\n').length).toBeLessThan(220);
  });
});
