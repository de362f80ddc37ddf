// Draws docs/refused-write.svg: a holder that freezes loses its lock, and the database rejects its late write.
// Run it with `node --import ./test/support/typescript-loader.mjs sample/picture/draw-refused-write.ts`; a test compares the file with what this draws.
import { writeFileSync } from 'node:fs';
import { argv } from 'node:process';
import { fileURLToPath } from 'node:url';

const WIDTH = 760;
const HEIGHT = 330;
const LANES = { holder: 120, database: 380, successor: 640 };

const LIGHT = {
  ground: '#ffffff',
  line: '#8a94a3',
  text: '#18202c',
  muted: '#4d5a6b',
  held: '#1a4fa8',
  good: '#12663a',
  bad: '#a3201a',
  warn: '#744700',
};
const DARK = {
  ground: '#10141b',
  line: '#6f7c90',
  text: '#e9edf3',
  muted: '#aab5c5',
  held: '#a9c9ff',
  good: '#7fe0a9',
  bad: '#ffb3aa',
  warn: '#ffd68a',
};

const colours = (palette: Readonly<Record<string, string>>): string =>
  Object.entries(palette)
    .map(([name, value]) => `--${name}:${value}`)
    .join(';');

const STYLE = `
svg{${colours(LIGHT)};font:20px system-ui,-apple-system,"Segoe UI",sans-serif}
@media(prefers-color-scheme:dark){svg{${colours(DARK)}}}
text{fill:var(--text);text-anchor:middle}
.b{font-weight:600}.s{font-size:15px;fill:var(--muted)}
.held{fill:var(--held)}.good{fill:var(--good)}.bad{fill:var(--bad)}.warn{fill:var(--warn)}
.box{fill:var(--ground);stroke:var(--line);stroke-width:1.5}
.rail{stroke:var(--line);stroke-width:1.5}.sleep{stroke:var(--warn);stroke-width:3;stroke-dasharray:2 3}
.arrow{fill:none;stroke-width:2.5}.arrow.good{stroke:var(--good)}.arrow.bad{stroke:var(--bad)}
.refusal{stroke:var(--bad);stroke-width:2.5}
.big{font-size:26px;font-weight:700}
`.trim();

function text(x: number, y: number, words: string, classes = ''): string {
  return `<text x="${x}" y="${y}"${classes && ` class="${classes}"`}>${words.replace('<', '&lt;')}</text>`;
}

function lane(x: number, name: string): string {
  return [
    `<line class="rail" x1="${x}" x2="${x}" y1="54" y2="262"/>`,
    `<rect class="box" x="${x - 80}" y="14" width="160" height="40" rx="8"/>`,
    text(x, 39, name, 'b'),
  ].join('');
}

/** A drum with the number that the database remembers. */
function database(x: number): string {
  return [
    `<path class="box" d="M${x - 90} 24v90c0 24 180 24 180 0v-90c0-24-180-24-180 0c0 24 180 24 180 0"/>`,
    text(x, 66, 'database', 'b'),
    text(x, 84, 'highest token seen', 's'),
    text(x, 112, '42', 'big good'),
  ].join('');
}

function arrow(fromX: number, toX: number, y: number, tone: string): string {
  const back = toX > fromX ? -9 : 9;
  return `<path class="arrow ${tone}" d="M${fromX} ${y}H${toX}m${back} -6l${-back} 6l${back} 6"/>`;
}

/** The whole file; the same at every call. */
export function drawRefusedWrite(): string {
  const { holder, database: middle, successor } = LANES;
  const parts = [
    lane(holder, 'worker A'),
    lane(successor, 'worker B'),
    `<line class="rail" x1="${middle}" x2="${middle}" y1="132" y2="262"/>`,
    database(middle),
    label(holder, 84, 'holds token 41', 'held'),
    `<line class="sleep" x1="${holder}" x2="${holder}" y1="96" y2="212"/>`,
    label(holder, 120, 'freezes', 'warn'),
    label(holder, 154, 'its lock expires', 'warn'),
    label(successor, 120, 'holds token 42', 'held'),
    arrow(successor - 12, middle + 84, 166, 'good'),
    text(548, 156, 'writes with 42', 'good b'),
    label(middle, 171, '42: stored ✓', 'good b'),
    label(holder, 206, 'wakes up', 'bad'),
    arrow(holder + 12, middle - 84, 240, 'bad'),
    text(212, 231, 'writes with 41', 'bad b'),
    refusal(middle, 240),
    text(middle, 308, 'The database rejects the late write.', 'b'),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="title description">
<title id="title">A late write is rejected</title>
<desc id="description">Worker A gets the lock with token 41 and freezes. Its lock expires. Worker B gets the lock with token 42 and writes. Worker A wakes up and writes with token 41: the database remembers 42 and rejects the write.</desc>
<style>${STYLE}</style>
<rect width="${WIDTH}" height="${HEIGHT}" rx="12" fill="var(--ground)"/>
${parts.join('\n')}
</svg>
`;
}

/** Refusal, which it is all about, as large as the number in the drum. */
function refusal(x: number, y: number): string {
  return `<rect class="box refusal" x="${x - 78}" y="${y - 22}" width="156" height="44" rx="8"/>${text(x, y + 8, '41 < 42 ✗', 'big bad')}`;
}

/** Words on a lane: the rail behind them is covered. */
function label(x: number, y: number, words: string, classes: string): string {
  const width = words.length * 10 + 14;
  return `<rect x="${x - width / 2}" y="${y - 16}" width="${width}" height="27" fill="var(--ground)"/>${text(x, y, words, classes)}`;
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(new URL('../../docs/refused-write.svg', import.meta.url), drawRefusedWrite());
}
