/** Line of the result. */
export interface Result {
  readonly scenario: string;
  readonly contestant: string;
  /** NaN where there is none; then the note says why. */
  readonly value: number;
  /** `statements` and `µs`: how many more than the first contestant sends or takes. `× throughput`: more is better. */
  readonly unit: '×' | '× throughput' | 'Jain' | 'B' | 'statements' | 'µs' | 'ms' | 'messages';
  /** Microseconds per operation, where there are any; they say nothing on another machine. */
  readonly micros?: number;
  readonly quartiles?: readonly [number, number];
  readonly p99?: number;
  /** Processor time of this process and of all servers together, microseconds per operation. */
  readonly clientCpu?: number;
  readonly serverCpu?: number;
  /** Write system calls, commands on all servers, and bytes both ways per operation. */
  readonly writes?: number;
  readonly calls?: number;
  readonly bytes?: number;
  /** Bytes of heap that this process allocated per operation. */
  readonly allocated?: number;
  readonly callers?: number;
  readonly nodes?: number;
  readonly note?: string;
  /** `value` should not be above it. */
  readonly bar?: number;
  /** Nor below it. */
  readonly exact?: boolean;
}

type Column = readonly [head: string, cell: (result: Result, floor: Result) => string];

const COLUMNS: readonly Column[] = [
  ['', ({ contestant }) => contestant],
  ['median', ({ micros }) => time(micros)],
  [
    'quartiles',
    ({ quartiles }) => (quartiles ? `${time(quartiles[0])} – ${time(quartiles[1])}` : ''),
  ],
  ['p99', ({ p99 }) => time(p99)],
  [
    'result',
    ({ value, unit }, floor) =>
      `${shown(value, unit)}${unit.startsWith('×') && floor.micros !== undefined && !Number.isNaN(value) ? ` of ${time(floor.micros)}` : ''}`,
  ],
  ['client CPU', ({ clientCpu }) => time(clientCpu)],
  ['server CPU', ({ serverCpu }) => time(serverCpu)],
  ['writes', ({ writes }) => number(writes)],
  ['commands', ({ calls }) => number(calls)],
  ['bytes', ({ bytes }) => bytes?.toFixed(0) ?? ''],
  ['allocated', ({ allocated }) => allocated?.toFixed(0) ?? ''],
  [
    'bar',
    (result) => {
      const { bar, exact, unit } = result;
      if (bar === undefined) return '';
      return `${exact ? '=' : '≤'} ${shown(bar, unit)} ${isKept(result) ? 'kept' : 'MISSED'}`;
    },
  ],
  ['note', ({ note }) => note ?? ''],
];

/** Whether every bar is kept. */
export function allKept(results: readonly Result[]): boolean {
  return results.every(isKept);
}

/** A table for each scenario, for a terminal, without the columns that it has nothing for. */
export function tables(results: readonly Result[]): string {
  return byScenario(results)
    .map(([scenario, rows]) => `${scenario}\n${table(rows)}`)
    .join('\n\n');
}

/** The results of each scenario, in their order. */
export function byScenario(results: readonly Result[]): [string, Result[]][] {
  const groups = new Map<string, Result[]>();
  for (const result of results)
    groups.set(result.scenario, [...(groups.get(result.scenario) ?? []), result]);
  return [...groups];
}

function table(results: readonly Result[]): string {
  const cells = COLUMNS.map(([head, cell]) => [
    head,
    ...results.map((result) => cell(result, results[0]!)),
  ]);
  const used = cells.filter(([, ...rows]) => rows.some((text) => text !== ''));
  const widths = used.map((column) => Math.max(...column.map((text) => text.length)));
  const lines = [...results, undefined].map((_, row) =>
    used
      .map((column, index) => {
        const isText = index === 0 || column[0] === 'note';
        return isText ? column[row]!.padEnd(widths[index]!) : column[row]!.padStart(widths[index]!);
      })
      .join('  ')
      .trimEnd(),
  );
  return lines.join('\n');
}

function isKept({ value, bar, exact }: Result): boolean {
  return bar === undefined || (exact ? value === bar : value <= bar);
}

function time(micros: number | undefined): string {
  if (micros === undefined) return '';
  return micros < 10_000 ? `${micros.toFixed(0)} µs` : `${(micros / 1_000).toFixed(0)} ms`;
}

function number(value: number | undefined): string {
  if (value === undefined) return '';
  return value < 100 ? String(Math.round(value * 10) / 10) : value.toFixed(0);
}

function shown(value: number, unit: Result['unit']): string {
  if (Number.isNaN(value)) return '–';
  if (unit.startsWith('×') || unit === 'Jain') return `${value.toFixed(2)} ${unit}`;
  if (unit === 'µs') return `${value < 0 ? '' : '+'}${value.toFixed(1)} µs`;
  if (unit === 'statements') return `+${value}`;
  return `${value.toFixed(0)} ${unit}`;
}
