/** One line of the result. */
export interface Result {
  readonly scenario: string;
  readonly contestant: string;
  readonly value: number;
  /** `statements` and `µs`: how many more than the first contestant sends or takes. */
  readonly unit: '×' | 'B' | 'statements' | 'µs';
  /** Microseconds per cycle, where there are any. They say nothing on another machine. */
  readonly micros?: number;
  /** `value` should not be above it. */
  readonly bar?: number;
  /** Nor below it. */
  readonly exact?: boolean;
}

/** Whether every bar is kept. */
export function allKept(results: readonly Result[]): boolean {
  return results.every(isKept);
}

/** A table for a terminal. */
export function table(results: readonly Result[]): string {
  const rows = results.map((result) => [
    result.scenario,
    result.contestant,
    result.micros === undefined ? '' : `${result.micros.toFixed(0)} µs`,
    shown(result.value, result.unit),
    result.bar === undefined ? '' : `${result.exact ? '=' : '≤'} ${shown(result.bar, result.unit)}`,
    result.bar === undefined ? '' : isKept(result) ? 'kept' : 'MISSED',
  ]);
  const all = [['scenario', '', 'per cycle', 'result', 'bar', ''], ...rows];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const lines = all.map((row) =>
    row
      .map((cell, column) =>
        column < 2 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!),
      )
      .join('  '),
  );
  return lines.join('\n');
}

function isKept({ value, bar, exact }: Result): boolean {
  return bar === undefined || (exact ? value === bar : value <= bar);
}

function shown(value: number, unit: Result['unit']): string {
  if (unit === '×') return `${value.toFixed(2)} ×`;
  if (unit === 'µs') return `${value < 0 ? '' : '+'}${value.toFixed(1)} µs`;
  return unit === 'B' ? `${value.toFixed(0)} B` : `+${value}`;
}
