import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FinishedRun } from '../run/campaign.ts';

const FOLDER = 'node_modules/.cache/campaign';
const SHOWN_VIOLATIONS = 10;

/** Describes for people a good run in one line, and what was broken in one that failed, of which the history is kept. */
export function describeFinishedRun(run: FinishedRun): string {
  const { schedule, seed, control, result, failure, tries } = run;
  const name = control ? `control '${control.name}' in '${schedule.name}'` : schedule.name;
  if (failure === undefined) {
    const { grants = 0 } = result?.measures ?? {};
    const shown = control ? 'noticed' : `${grants} grants`;
    const repeated = tries > 1 ? `, at try ${tries}: before, it proved nothing` : '';
    return `ok      ${name} (seed ${seed}): ${shown}${repeated}`;
  }
  const again = `npm run faults -- --only '${(control ?? schedule).name}' --seed ${seed}`;
  return [
    `FAILED  ${name} (seed ${seed}): ${failure}`,
    ...(control ? [] : (result?.violations ?? []))
      .slice(0, SHOWN_VIOLATIONS)
      .map(({ rule, message }) => `- ${rule}: ${message.replaceAll(/\s*\n\s*/g, ' ')}`),
    `The same schedule again, as far as real processes repeat themselves: ${again}`,
    ...(result ? [`Its history: ${keepHistory(name, seed, result.history)}`] : []),
  ].join('\n');
}

/** Writes one event a line. Returns where. */
function keepHistory(name: string, seed: number, history: readonly object[]): string {
  mkdirSync(FOLDER, { recursive: true });
  const path = join(FOLDER, `${`${name} ${seed}`.replaceAll(/[^a-z0-9-]+/gi, '-')}.jsonl`);
  writeFileSync(path, history.map((event) => `${JSON.stringify(event)}\n`).join(''));
  return path;
}
