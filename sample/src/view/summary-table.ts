import type { SummaryRow, Verdict } from '../stage/summary.ts';
import type { Paint } from './paint.ts';

const NARROWEST = 80;
const WIDEST = 150;

/** Promises and what was observed, one promise per row, grouped by act. */
export function summaryTable(
  rows: readonly SummaryRow[],
  availableWidth: number,
  paint: Paint,
): string {
  const width = Math.min(Math.max(availableWidth, NARROWEST), WIDEST);
  const verdictWidth = 'not played'.length;
  const promisedWidth = Math.floor((width - verdictWidth - 4) / 2);
  const observedWidth = width - verdictWidth - 4 - promisedWidth;

  const line = (promised: string, observed: string, verdict: string): string =>
    `${promised.padEnd(promisedWidth)}  ${observed.padEnd(observedWidth)}  ${verdict}`.trimEnd();
  const lines = [
    paint('bold', line('promised', 'observed', 'verdict')),
    paint('dim', '─'.repeat(width)),
  ];
  let act: string | undefined;
  for (const row of rows) {
    if (row.act !== act) lines.push(paint('bold', row.act));
    act = row.act;
    const promised = wrap(row.promised, promisedWidth - 2);
    const observed = wrap(row.observed, observedWidth);
    for (let index = 0; index < Math.max(promised.length, observed.length); index += 1) {
      const text = line(`  ${promised[index] ?? ''}`, observed[index] ?? '', '');
      const verdict = index === 0 ? paint(COLOURS[row.verdict], row.verdict) : '';
      lines.push(verdict ? `${text.padEnd(promisedWidth + observedWidth + 4)}${verdict}` : text);
    }
  }
  lines.push(paint('dim', '─'.repeat(width)), counts(rows));
  return lines.join('\n');
}

const COLOURS: Record<Verdict, 'green' | 'red' | 'yellow'> = {
  kept: 'green',
  BROKEN: 'red',
  'not played': 'yellow',
};

function counts(rows: readonly SummaryRow[]): string {
  const count = (verdict: Verdict): number => rows.filter((row) => row.verdict === verdict).length;
  const parts = [`${rows.length} promises: ${count('kept')} kept`, `${count('BROKEN')} broken`];
  if (count('not played') > 0) parts.push(`${count('not played')} not played`);
  return parts.join(', ');
}

/** Breaks at spaces; a word longer than a line is cut. */
function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let current = '';
  for (const word of text.split(/\s+/)) {
    const joined = current === '' ? word : `${current} ${word}`;
    if (joined.length <= width) {
      current = joined;
      continue;
    }
    if (current !== '') lines.push(current);
    current = word;
    while (current.length > width) {
      lines.push(current.slice(0, width));
      current = current.slice(width);
    }
  }
  return [...lines, current];
}
