import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FinishedRun } from '../run/campaign.ts';

const FOLDER = 'node_modules/.cache/faults';

/** Keeps the history of a run that failed, one event a line, and returns where. Undefined when there is none. */
export function keepHistory({ schedule, seed, control, result }: FinishedRun): string | undefined {
  if (!result) return undefined;
  mkdirSync(FOLDER, { recursive: true });
  const name = `${control ? `${control.name} in ` : ''}${schedule.name} ${seed}`;
  const path = join(FOLDER, `${name.replaceAll(/[^a-z0-9-]+/gi, '-')}.jsonl`);
  writeFileSync(path, result.history.map((event) => `${JSON.stringify(event)}\n`).join(''));
  return path;
}
