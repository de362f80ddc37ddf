import type { RunMeasures } from '../checks/run-verdict.ts';
import type { FinishedRun } from '../run/campaign.ts';

const HEADINGS = [
  'schedule',
  'runs',
  'grants',
  'locks lost',
  'busy',
  'outage: none',
  'guard',
  'real',
  'stale writes: unfenced took',
  'the fence refused',
  'overlap ms',
  'idle ms',
  'idle excused',
  'recovery ms',
  'violations',
] as const;

/** Table of one line for each schedule, summed over its runs; times are the longest of any run. Controls have their own table. */
export function resultsTable(finished: readonly FinishedRun[]): string {
  const ordinary = finished.filter(({ control }) => control === undefined);
  const rows = [...new Set(ordinary.map(({ schedule }) => schedule.name))].map((name) =>
    scheduleRow(
      name,
      ordinary.filter(({ schedule }) => schedule.name === name),
    ),
  );
  const controls = finished.filter(({ control }) => control !== undefined).map(controlRow);
  return [
    ...(rows.length > 0 ? [markdownTable(HEADINGS, rows)] : []),
    ...(controls.length > 0
      ? [markdownTable(['broken on purpose', 'schedule', 'noticed by'], controls)]
      : []),
  ].join('\n\n');
}

function scheduleRow(name: string, runs: readonly FinishedRun[]): string[] {
  const measures = runs.flatMap(({ result }) => (result ? [result.measures] : []));
  const sum = (of: (measure: RunMeasures) => number): string =>
    String(measures.reduce((total, measure) => total + of(measure), 0));
  const longest = (of: (measure: RunMeasures) => number): string =>
    String(Math.round(Math.max(0, ...measures.map(of))));
  const failed = runs.filter(({ result }) => !result).length;
  const violations = runs.reduce(
    (total, { result }) => total + (result?.violations.length ?? 0),
    0,
  );
  return [
    name,
    String(runs.length),
    sum(({ grants }) => grants),
    sum(({ losses }) => losses),
    sum(({ refusals }) => refusals['LOCK_BUSY'] ?? 0),
    sum(({ outages }) => outages.none),
    sum(({ outages }) => outages.guard),
    sum(({ outages }) => outages.real),
    sum(({ unfencedStaleWrites }) => unfencedStaleWrites),
    sum(({ fencedRefusals }) => fencedRefusals),
    longest(({ longestOverlapMs }) => longestOverlapMs),
    longest(({ longestIdleGapMs }) => longestIdleGapMs),
    `${Math.round(100 * average(measures.map(({ excusedIdleShare }) => excusedIdleShare)))} %`,
    longest(({ longestRecoveryMs }) => longestRecoveryMs),
    failed > 0 ? `${failed} not carried out` : String(violations),
  ];
}

function average(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0) / Math.max(1, numbers.length);
}

function controlRow({ control, schedule, result, failure }: FinishedRun): string[] {
  const rules = new Set(result?.violations.map(({ rule }) => rule));
  const noticed = control!.caughtBy.filter((rule) => rules.has(rule));
  return [control!.claim, schedule.name, failure ?? noticed.join(', ')];
}

function markdownTable(headings: readonly string[], rows: readonly string[][]): string {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => row[column]!.length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`;
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  return [line(headings), rule, ...rows.map(line)].join('\n');
}
