import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { commandOf, OUT } from './part-options.ts';
import { readLog, type Play } from './play-part.ts';

/** Writes what was played so far, and for each failure how it is seen again. Returns where. */
export function writeReport(seed: number, command: string, plays: readonly Play[]): string {
  const red = plays.filter(({ result }) => result !== 'green');
  const minutes = plays.reduce((sum, play) => sum + play.minutes, 0);
  const text = [
    `# Campaign with seed ${seed}: ${red.length === 0 ? 'green' : `${red.length} red`}`,
    '',
    `\`${command}\` at commit ${commit()}, until ${new Date().toISOString()}: ${plays.length} parts in ` +
      `${minutes.toFixed(1)} min, Node.js ${process.version}, ${availableParallelism()} cores, ` +
      `load ${loadavg()[0]!.toFixed(1)}.`,
    '',
    '| part | seed | result | minutes | in its words |',
    '| ---- | ---- | ------ | ------- | ------------ |',
    ...plays.map((play) => {
      const { part, options, result } = play;
      const sum = readLog(play).sum.replaceAll('|', '\\|');
      return `| ${part.name} | ${options.seed} | ${result} | ${play.minutes.toFixed(1)} | ${sum} |`;
    }),
    '',
    ...red.flatMap(describe),
  ];
  mkdirSync(OUT, { recursive: true });
  const path = `${OUT}/report.md`;
  writeFileSync(path, text.join('\n'));
  return path;
}

/** A section about a part that failed. */
function describe(play: Play): string[] {
  const { part, options, log } = play;
  const { hints, end } = readLog(play);
  return [
    `## ${part.name}, seed ${options.seed}`,
    '',
    `Again, all of it: \`${againOf(play)}\`. What it printed: \`${log}\`.`,
    '',
    ...hints.map((hint) => `- ${hint}`),
    '',
    '```text',
    end,
    '```',
    '',
  ];
}

/** The command that plays the part again. */
export function againOf({ part, options }: Play): string {
  return commandOf(options.only === '' ? part.name : `${part.name}/${options.only}`, options);
}

function commit(): string {
  try {
    const git = (...parameters: string[]) =>
      execFileSync('git', parameters, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    const isChanged = git('status', '--porcelain').trim() !== '';
    return `${git('rev-parse', '--short', 'HEAD').trim()}${isChanged ? ', changed' : ''}`;
  } catch {
    return 'unknown';
  }
}
