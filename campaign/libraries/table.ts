import { FAULTS } from './faults.ts';
import type { Figures } from './judge.ts';
import { versionOf, type Column, type Library } from './library.ts';

/** A cell of the table: what its plays showed, one for each seed; undefined where it could not be played. */
export interface Played {
  readonly name: string;
  readonly library: Library;
  readonly column: Column;
  readonly fault: string;
  readonly figures: Figures | undefined;
}

type Row = readonly Played[];

/** The table as Markdown: what was lost, who was in a section beside whom, who was told, and the rest. */
export function renderTable(played: readonly Played[]): string {
  const rows = new Map<string, Played[]>();
  for (const cell of played) {
    const name = `${cell.name}, ${cell.column}`;
    rows.set(name, [...(rows.get(name) ?? []), cell]);
  }
  const faults = FAULTS.map(({ name }) => name);
  const perFault = (title: string, show: (figures: Figures) => string): string => {
    const cellsOf = (row: Row): string[] => faults.map((fault) => both(row, fault, show));
    return tableOf(title, ['library', ...faults], rows, cellsOf);
  };
  return [
    tableOf('Libraries', ['library', 'version', 'settings'], rows, ([{ library, column }]) => [
      versionOf(library).replace(/^v/, ''),
      library[column]!.what,
    ]),
    perFault('Lost updates without a fence', ({ lost }) => String(lost)),
    perFault('Overlaps', ({ overlaps }) => String(overlaps)),
    perFault('Told / untold', ({ told, untold }) =>
      told + untold > 0 ? `${told} / ${untold}` : '–',
    ),
    tableOf('The rest', REST, rows, rest),
  ].join('\n\n');
}

const REST = [
  'library',
  'lost updates behind the fence',
  'free after a kill, ms',
  'grants without a fault',
  'processes ended',
  'calls that never ended',
  'raw errors',
];

function rest(row: Row): string[] {
  const sum = (figure: (figures: Figures) => number): string => {
    const known = row.flatMap(({ figures }) => (figures ? [figure(figures)] : []));
    return String(known.reduce((total, each) => total + each, 0));
  };
  const hasToken = row.some(({ figures }) => figures?.lostFenced !== undefined);
  const errors = row.flatMap(({ figures }) => figures?.rawErrors ?? []);
  const classes = new Set(errors.map((error) => error.split(':')[0]!));
  return [
    hasToken ? sum(({ lostFenced = 0 }) => lostFenced) : 'no token',
    both(row, 'killed', ({ recoveryMs = Infinity }) =>
      recoveryMs === Infinity ? 'never' : recoveryMs.toFixed(0),
    ),
    both(row, 'none', ({ grants }) => String(grants)),
    sum(({ crashes }) => crashes),
    sum(({ hangs }) => hangs),
    [...classes].join(', ') || '0',
  ];
}

/** The figures of the plays of one cell, once where they are the same. */
function both(row: Row, fault: string, show: (figures: Figures) => string): string {
  const shown = row.flatMap((cell) =>
    cell.fault === fault ? [cell.figures ? show(cell.figures) : 'not played'] : [],
  );
  return [...new Set(shown)].join(', ');
}

function tableOf(
  title: string,
  head: readonly string[],
  rows: ReadonlyMap<string, Row>,
  cellsOf: (row: [Played, ...Played[]]) => readonly string[],
): string {
  const lines = Array.from(rows, ([name, row]) => [name, ...cellsOf(row as [Played, ...Played[]])]);
  const text = [head, head.map(() => '--'), ...lines].map((line) => `| ${line.join(' | ')} |`);
  return [`### ${title}`, '', ...text].join('\n');
}
