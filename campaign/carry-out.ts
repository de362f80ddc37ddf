import type { CampaignEvent } from './faults/campaign-event.ts';
import type { CampaignViolation } from './faults/judge/verdict.ts';
import {
  chosen,
  keepHistory,
  MOST_PLAYS,
  say,
  sayHow,
  someOf,
  type PartOptions,
} from './part-options.ts';

/** What is played, or something broken on purpose that the same judge has to notice. */
export interface Play {
  readonly name: string;
  readonly minutes: number;
  readonly quickMinutes: number;
  /** The promises of which a control has to break one. */
  readonly caughtBy?: readonly CampaignViolation['rule'][];
}

/** What became of a play. */
export interface Outcome {
  readonly violations: readonly CampaignViolation[];
  /** Reason why the play proves nothing. */
  readonly withoutEffect: string | undefined;
  readonly figures: Readonly<Record<string, number>>;
  readonly history: readonly CampaignEvent[];
}

type Carry<Plan> = (
  plan: Plan,
  settings: { readonly seed: number; readonly durationMs: number },
) => Promise<Outcome>;

const SHOWN_VIOLATIONS = 10;

/** Plays the plays of a part that were chosen, and says what became of them. */
export async function carryOutAll<Plan extends Play>(
  part: string,
  plays: readonly Plan[],
  options: PartOptions,
  play: Carry<Plan>,
): Promise<void> {
  let failed = 0;
  const asked = someOf(chosen(plays, options.only), options.only);
  for (const each of asked) {
    const isGood = await carryOut(part, each, options, play).catch((error: unknown) => {
      say(`FAILED: ${each.name} could not be carried out: ${(error as Error).stack}`);
      sayHow(`${part}/${each.name}`, options);
      return false;
    });
    if (!isGood) failed += 1;
  }
  say(`${asked.length} plays, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}

/** Says what became of a play; false when it failed. One that broke a promise is never played again. */
async function carryOut<Plan extends Play>(
  part: string,
  plan: Plan,
  options: PartOptions,
  play: Carry<Plan>,
): Promise<boolean> {
  const { name, caughtBy, minutes, quickMinutes } = plan;
  const durationMs = (options.isQuick ? quickMinutes : minutes) * 60_000;
  for (let plays = 1; ; plays += 1) {
    const seed = options.seed + plays - 1;
    const outcome = await play(plan, { seed, durationMs });
    const failure = caughtBy ? whatIsUnseen(caughtBy, outcome) : whatFailed(outcome);
    const isHidden = caughtBy !== undefined || outcome.violations.length === 0;
    if (failure !== undefined && isHidden && plays < MOST_PLAYS) continue;
    const result = failure === undefined ? 'ok' : 'FAILED';
    say(`${result}: ${name}, seed ${seed}: ${figuresOf(outcome)}`);
    if (failure === undefined) return true;
    say(failure);
    sayHow(`${part}/${name}`, options, keepHistory(`${part} ${name} ${seed}`, outcome.history));
    return false;
  }
}

function figuresOf({ figures, violations }: Outcome): string {
  const broken = [...new Set(violations.map(({ rule }) => rule))];
  const counts = Object.entries(figures).map(([name, count]) => `${count} ${name}`);
  return [...counts, `broken: ${broken.join(', ') || 'nothing'}`].join('; ');
}

function whatIsUnseen(
  caughtBy: NonNullable<Play['caughtBy']>,
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
