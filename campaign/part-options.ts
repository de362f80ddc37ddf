import { mkdirSync, writeFileSync } from 'node:fs';
import { positiveInteger, readOptions, refuse } from '../test/support/command-line.ts';

/** Where a campaign leaves its report, its logs and the histories of failures. */
export const OUT = 'campaign/out';

/**
 * How often something is played, each time with seeds of its own, where a busy machine can hide what there is to see: a control,
 * which one play has to notice, and a schedule that proves nothing.
 */
export const MOST_PLAYS = 3;

export interface PartOptions {
  readonly seed: number;
  readonly isQuick: boolean;
  /** Name, or a piece of it, of what alone is to be played. */
  readonly only: string;
}

/** The options with which `npm run campaign` starts the program of a part. */
export function readPartOptions(): PartOptions {
  const options = readOptions(
    {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      seed: { type: 'string', default: '1' },
    },
    'This is started by: npm run campaign',
  );
  const seed = positiveInteger('seed', options.seed);
  return { seed, isQuick: options.quick, only: options.only };
}

/** What has this name; where nothing has, all that have it as a piece of their name. */
export function chosen<Item extends { readonly name: string }>(
  items: readonly Item[],
  only: string,
): readonly Item[] {
  const exact = items.filter(({ name }) => name === only);
  return exact.length > 0 ? exact : items.filter(({ name }) => name.includes(only));
}

/** Refuses a name that nothing has. */
export function someOf<Item>(items: readonly Item[], only: string): readonly Item[] {
  return items.length > 0 ? items : refuse(`nothing has '${only}' in its name`);
}

/** The command that plays something again. */
export function commandOf(what: string, { seed, isQuick }: Omit<PartOptions, 'only'>): string {
  return `npm run campaign -- --only '${what}' --seed ${seed}${isQuick ? ' --quick' : ''}`;
}

/** Says for a log and the report how to see a failure again. */
export function sayHow(what: string, options: Omit<PartOptions, 'only'>, history?: string): void {
  if (history !== undefined) say(`History: ${history}`);
  say(`Again: ${commandOf(what, options)}`);
}

export function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** The name as one of a file. */
export const slug = (name: string): string => name.replaceAll(/[^a-z0-9]+/gi, '-');

/** The path of the history of something, in a folder that is there. */
export function historyPath(name: string): string {
  const folder = `${OUT}/history`;
  mkdirSync(folder, { recursive: true });
  return `${folder}/${slug(name)}.jsonl`;
}

/** Writes one event a line. Returns where. */
export function keepHistory(name: string, history: readonly object[]): string {
  const path = historyPath(name);
  writeFileSync(path, history.map((event) => `${JSON.stringify(event)}\n`).join(''));
  return path;
}
