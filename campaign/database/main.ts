import {
  chosen,
  keepHistory,
  MOST_PLAYS,
  readPartOptions,
  say,
  sayHow,
  someOf,
} from '../part-options.ts';
import { play, PLAYS, type DatabasePlay, type Outcome } from './plays.ts';

const SHOWN_VIOLATIONS = 10;
const options = readPartOptions();
const size = options.isQuick ? { workers: 3, callers: 4 } : { workers: 8, callers: 8 };

/** Says what became of a play; false when it failed. One that broke a promise is never played again. */
async function carryOut(plan: DatabasePlay): Promise<boolean> {
  const { name, caughtBy, minutes, quickMinutes } = plan;
  const durationMs = (options.isQuick ? quickMinutes : minutes) * 60_000;
  for (let plays = 1; ; plays += 1) {
    const seed = options.seed + plays - 1;
    const outcome = await play(plan, { ...size, seed, durationMs });
    const failure = caughtBy ? whatIsUnseen(caughtBy, outcome) : whatFailed(outcome);
    const isHidden = caughtBy !== undefined || outcome.violations.length === 0;
    if (failure !== undefined && isHidden && plays < MOST_PLAYS) continue;
    const result = failure === undefined ? 'ok' : 'FAILED';
    say(`${result}: ${name}, seed ${seed}: ${figuresOf(outcome)}`);
    if (failure === undefined) return true;
    say(failure);
    sayHow(`database/${name}`, options, keepHistory(`database ${name} ${seed}`, outcome.history));
    return false;
  }
}

function figuresOf({ figures, violations }: Outcome): string {
  const broken = [...new Set(violations.map(({ rule }) => rule))];
  const counts = Object.entries(figures).map(([name, count]) => `${count} ${name}`);
  return [...counts, `broken: ${broken.join(', ') || 'nothing'}`].join('; ');
}

function whatIsUnseen(
  caughtBy: NonNullable<DatabasePlay['caughtBy']>,
  { violations }: Outcome,
): string | undefined {
  const isSeen = violations.some(({ rule }) => caughtBy.includes(rule));
  return isSeen ? undefined : `not noticed in ${MOST_PLAYS} plays`;
}

function whatFailed({ violations, withoutEffect }: Outcome): string | undefined {
  if (violations.length === 0) return withoutEffect;
  const shown = violations.slice(0, SHOWN_VIOLATIONS);
  return shown.map(({ rule, message }) => `- ${rule}: ${message}`).join('\n');
}

let failed = 0;
const plays = someOf(chosen(PLAYS, options.only), options.only);
for (const each of plays) {
  const isGood = await carryOut(each).catch((error: unknown) => {
    say(`FAILED: ${each.name} could not be carried out: ${(error as Error).stack}`);
    sayHow(`database/${each.name}`, options);
    return false;
  });
  if (!isGood) failed += 1;
}
say(`${plays.length} plays, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
