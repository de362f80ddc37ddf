import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync, readFileSync } from 'node:fs';
import { finished } from 'node:stream/promises';
import { stripVTControlCharacters } from 'node:util';
import { OUT, slug, type PartOptions } from './part-options.ts';
import type { Part } from './parts.ts';

/** The length of the end of a log that the report shows. */
const SHOWN_LINES = 80;

/** What became of a part. */
export interface Play {
  readonly part: Part;
  readonly options: PartOptions;
  readonly result: 'green' | 'RED' | 'stopped';
  readonly minutes: number;
  /** The path of what it printed. */
  readonly log: string;
}

export interface PlaySettings {
  /** Whether what it prints is shown, too. */
  readonly isShown: boolean;
  readonly stop: AbortSignal;
}

/** Runs the commands of a part in processes of their own. Their exit codes decide; what they print goes to a log. */
export async function playPart(
  part: Part,
  options: PartOptions,
  { isShown, stop }: PlaySettings,
): Promise<Play> {
  const startedAtMs = performance.now();
  mkdirSync(OUT, { recursive: true });
  const name = slug(`${part.name} ${options.only} ${options.seed}`);
  const log = `${OUT}/${name}.log`;
  const file = createWriteStream(log);
  let isGreen = true;
  for (const command of part.commands(options)) {
    isGreen = isGreen && !stop.aborted && (await run(command, { file, isShown, stop }));
  }
  file.end();
  await finished(file);
  const minutes = (performance.now() - startedAtMs) / 60_000;
  const result = isGreen ? 'green' : stop.aborted ? 'stopped' : 'RED';
  return { part, options, result, minutes, log };
}

async function run(
  [command, ...parameters]: readonly string[],
  { file, isShown, stop }: PlaySettings & { file: NodeJS.WritableStream },
): Promise<boolean> {
  // A group of its own, by which all of it ends when the campaign is stopped.
  const child = spawn(command!, parameters, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NO_COLOR: '1' },
    detached: true,
  });
  const end = (): void => void (child.pid !== undefined && process.kill(-child.pid, 'SIGTERM'));
  stop.addEventListener('abort', end, { once: true });
  try {
    for (const stream of [child.stdout, child.stderr]) {
      stream.pipe(file, { end: false });
      if (isShown) stream.pipe(process.stdout, { end: false });
    }
    const [code] = (await once(child, 'close')) as [number | null];
    return code === 0;
  } finally {
    stop.removeEventListener('abort', end);
  }
}

/** What a log says: the line that sums up, how to see failures again, and its end. */
export function readLog({ part, log }: Play): { sum: string; hints: string[]; end: string } {
  const lines = stripVTControlCharacters(readFileSync(log, 'utf8')).trimEnd().split('\n');
  const sum = lines.findLast((line) => (part.sum ?? /./).test(line)) ?? '';
  return {
    sum: sum.trim(),
    hints: [...new Set(lines.filter((line) => /^(?:FAIL |Again: |Replay: |History: )/.test(line)))],
    end: lines.slice(-SHOWN_LINES).join('\n'),
  };
}
