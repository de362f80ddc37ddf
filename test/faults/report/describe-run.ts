import { describeVerdict } from '../checks/describe-verdict.ts';
import type { FinishedRun } from '../run/campaign.ts';

/** For people: one line for a run that went well, and the whole story of one that did not. */
export function describeFinishedRun({
  schedule,
  seed,
  control,
  result,
  failure,
}: FinishedRun): string {
  const name = control ? `control '${control.name}' in '${schedule.name}'` : schedule.name;
  if (failure === undefined) {
    const { grants = 0 } = result?.measures ?? {};
    return `ok      ${name} (seed ${seed}): ${control ? 'noticed' : `${grants} grants`}`;
  }
  const again = control
    ? `npm run faults -- --only '${control.name}' --seed ${seed}`
    : `npm run faults -- --only '${schedule.name}' --seed ${seed}`;
  return [
    `FAILED  ${name} (seed ${seed}): ${failure}`,
    ...(result && !control ? [describeVerdict(result, result.history)] : []),
    `The same schedule again, as far as real processes repeat themselves: ${again}`,
  ].join('\n');
}
