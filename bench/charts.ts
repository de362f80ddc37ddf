import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { NOISE } from './lock-contestants.ts';
import { byScenario, type Result } from './report.ts';

const WIDTH = 760;
const LEFT = 220;
const ROW = 20;
/** Distinguishable for the colour-blind, and in this order. */
const COLOURS = [
  '#999999',
  '#444444',
  '#0072b2',
  '#d55e00',
  '#009e73',
  '#cc79a7',
  '#e69f00',
  '#56b4e9',
];

/** Draws what the results have figures for, one file for each subject. */
export function drawCharts(folder: string, results: readonly Result[]): void {
  mkdirSync(folder, { recursive: true });
  const draw = (file: string, chart: string | undefined): void => {
    if (chart !== undefined) writeFileSync(join(folder, `${file}.svg`), chart);
  };
  const of = (pattern: RegExp): Result[] =>
    results.filter(({ scenario, value }) => pattern.test(scenario) && !Number.isNaN(value));
  draw(
    'one-caller',
    bars('One caller: time, as a ratio to raw ioredis', of(/^(acquire and|an empty)/)),
  );
  draw('one-key', bars('Callers for one key: time, as a ratio to a queue', of(/for one key,/)));
  draw(
    'faults',
    bars('Frozen and slow servers: time, as a ratio to raw ioredis', of(/, for all$/)),
  );
  for (const nodes of [1, 3, 5, 7]) {
    const rows = of(/keys of their own/).filter((each) => each.nodes === nodes);
    draw(
      `callers-${nodes}`,
      lines(`Locks per second, ${nodes === 1 ? 'one server' : `${nodes} servers`}`, rows),
    );
  }
}

function svg(height: number, title: string, body: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12">
<rect width="${WIDTH}" height="${height}" fill="white"/>
${text(12, 22, title, 'font-size="15" font-weight="bold"')}
${body.join('\n')}
</svg>
`;
}

function text(x: number, y: number, words: string, attributes = ''): string {
  const escaped = words.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text x="${round(x)}" y="${round(y)}" fill="#222" ${attributes}>${escaped}</text>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** A bar for each result, by scenario; a line where the ratio is 1. Bars that would dwarf the others are cut. */
function bars(title: string, results: readonly Result[]): string | undefined {
  if (results.length === 0) return undefined;
  const most = Math.min(4, Math.max(...results.map(({ value }) => value)));
  const scale = (value: number) => (Math.min(value, most) / most) * (WIDTH - LEFT - 60);
  const body: string[] = [];
  let y = 40;
  const top = y;
  for (const [scenario, rows] of byScenario(results)) {
    body.push(text(12, y + 14, scenario, 'font-weight="bold"'));
    y += ROW + 2;
    for (const { contestant, value } of rows) {
      const colour = colourOf(contestant, results);
      body.push(
        text(LEFT - 8, y + 13, contestant, 'text-anchor="end"'),
        `<rect x="${LEFT}" y="${y + 3}" width="${round(scale(value))}" height="${ROW - 6}" fill="${colour}"/>`,
        text(LEFT + scale(value) + 5, y + 13, `${value.toFixed(2)}${value > most ? ' (cut)' : ''}`),
      );
      y += ROW;
    }
    y += 8;
  }
  const one = round(LEFT + scale(1));
  body.push(`<path d="M${one} ${top}V${y}" stroke="#222" stroke-dasharray="3 3"/>`);
  return svg(y + 8, title, body);
}

/** Locks per second over the number of callers, both logarithmic. */
function lines(title: string, results: readonly Result[]): string | undefined {
  const drawn = results.filter(({ contestant }) => contestant !== NOISE);
  const counts = [...new Set(drawn.map(({ callers }) => callers!))];
  if (counts.length < 2) return undefined;
  const rates = drawn.map(({ micros }) => 1e6 / micros!);
  const [least, most] = [Math.min(...rates) * 0.9, Math.max(...rates) * 1.1];
  const height = 400;
  const x = (callers: number) =>
    60 + (Math.log(callers / counts[0]!) / Math.log(counts.at(-1)! / counts[0]!)) * 480;
  const y = (rate: number) =>
    height - 40 - (Math.log(rate / least) / Math.log(most / least)) * (height - 90);
  const body = counts.map((count) =>
    text(x(count), height - 18, String(count), 'text-anchor="middle"'),
  );
  body.push(text(300, height - 3, 'callers', 'text-anchor="middle"'));
  for (const tick of [500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000]) {
    if (tick < least || tick > most) continue;
    body.push(
      `<path d="M60 ${round(y(tick))}H540" stroke="#ddd"/>`,
      text(55, y(tick) + 4, String(tick), 'text-anchor="end"'),
    );
  }
  const names = [...new Set(drawn.map(({ contestant }) => contestant))];
  for (const [index, name] of names.entries()) {
    const colour = colourOf(name, drawn);
    const rows = drawn.filter(({ contestant }) => contestant === name);
    const points = rows.map((row) => `${round(x(row.callers!))},${round(y(1e6 / row.micros!))}`);
    body.push(
      `<polyline points="${points.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>`,
      `<path d="M556 ${60 + index * 20}h20" stroke="${colour}" stroke-width="3"/>`,
      text(582, 64 + index * 20, name),
    );
  }
  return svg(height, title, body);
}

function colourOf(contestant: string, results: readonly Result[]): string {
  const names = [...new Set(results.map((result) => result.contestant))];
  return COLOURS[names.indexOf(contestant) % COLOURS.length]!;
}
