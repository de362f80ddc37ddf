import { positiveInteger, readOptions, refuse } from '../test/support/command-line.ts';
import { chosen, say } from './part-options.ts';
import { PARTS, type Part } from './parts.ts';
import { playPart, type Play } from './play-part.ts';
import { againOf, writeReport } from './report.ts';

const USAGE = `
Usage: npm run campaign -- [options]

Plays what needs chance, minutes, or more than the gate has, and writes campaign/out/report.md: what was played, and for each
failure its seed, the command that plays it again, and where its log and its history are.

  --quick            a piece of each part
  --only <part>      one part, or a piece of it: faults, 'faults/majority frozen'
  --seed <number>    the seed of all parts; by chance when left out
  --hours <number>   plays all again, with new seeds, until the time is over
  --list             names the parts and their pieces, and plays none
  --help             prints this
`;

/** Later rounds have seeds that no part of an earlier one has used. */
const SEEDS_OF_A_ROUND = 100_000;
const GREATEST_CHANCE = 1_000_000_000;

const options = readOptions(
  {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    seed: { type: 'string', default: String(1 + Math.floor(Math.random() * GREATEST_CHANCE)) },
    hours: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
  USAGE,
);

/** The parts that are due, and the piece to which `--only` limits them. */
function whatIsDue(): { parts: readonly Part[]; piece: string } {
  const [name = '', ...rest] = options.only.split('/');
  const piece = rest.join('/');
  const parts = PARTS.filter((part) => name === '' || part.name === name);
  const pieces = parts.flatMap((part) => part.pieces);
  if (parts.length === 0)
    refuse(`there is no part '${name}', but ${PARTS.map((part) => part.name).join(', ')}`);
  if (piece === '') return { parts, piece };
  const found = chosen(pieces, piece);
  if (found.length === 0) refuse(`${name} has no '${piece}'`);
  return { parts, piece: found.length === 1 ? found[0]!.name : piece };
}

async function main(): Promise<void> {
  const { parts, piece } = whatIsDue();
  if (options.list) {
    for (const part of parts) {
      say(`${part.name}: ${part.what}`);
      for (const { name, what } of part.pieces)
        say(`  ${part.name}/${name}${what === undefined ? '' : `: ${what}`}`);
    }
    return;
  }
  const first = positiveInteger('seed', options.seed);
  const hours = options.hours === undefined ? 0 : positiveInteger('hours', options.hours);
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort());
  const stop = stopping.signal;
  const command =
    `npm run campaign -- --seed ${first}` +
    (options.quick ? ' --quick' : '') +
    (options.only === '' ? '' : ` --only '${options.only}'`);
  say(command);
  const plays: Play[] = [];
  let report = '';
  const isOver = (): boolean => stop.aborted || performance.now() > hours * 3_600_000;
  let due = parts;
  for (let round = 0; due.length > 0 && (round === 0 || !isOver()); round += 1) {
    const seed = first + round * SEEDS_OF_A_ROUND;
    for (const part of due) {
      if (round === 0 ? stop.aborted : isOver()) break;
      const settings = { isShown: options.only !== '', stop };
      const play = await playPart(part, { seed, isQuick: options.quick, only: piece }, settings);
      plays.push(play);
      report = writeReport(first, command, plays);
      const minutes = (performance.now() / 60_000).toFixed(1);
      say(`${part.name.padEnd(10)}  seed ${seed}  ${play.result.padEnd(7)}  ${minutes} min`);
      if (play.result === 'RED') say(`  ${play.log}\n  again: ${againOf(play)}`);
    }
    due = parts.filter(({ isSettled }) => !isSettled);
  }
  say(report);
  process.exitCode = plays.every(({ result }) => result === 'green') ? 0 : 1;
}

await main();
