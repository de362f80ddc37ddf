import type { CampaignEvent } from '../campaign-event.ts';
import { excerptAround, onOneLine } from './excerpt.ts';
import type { CampaignViolation, RunVerdict } from './run-verdict.ts';

const SHOWN_VIOLATIONS = 10;

/** For people: what was broken how often, the first violations, and what happened around the first of them. */
export function describeVerdict(
  { violations }: RunVerdict,
  events: readonly CampaignEvent[],
): string {
  if (violations.length === 0) return 'No violation.';
  const shown = violations.slice(0, SHOWN_VIOLATIONS);
  const lines = [
    `${violations.length} violation${violations.length === 1 ? '' : 's'}: ${countsOf(violations)}`,
    ...shown.map(({ rule, message }) => `- ${rule}: ${onOneLine(message)}`),
  ];
  if (violations.length > shown.length) {
    lines.push(`  and ${violations.length - shown.length} more`);
  }
  const first = violations.find(({ at }) => at !== undefined);
  if (first) lines.push('', ...excerptAround(first, events));
  return lines.join('\n');
}

/** The most frequent first. */
function countsOf(violations: readonly CampaignViolation[]): string {
  const counts = new Map<string, number>();
  for (const { rule } of violations) counts.set(rule, (counts.get(rule) ?? 0) + 1);
  return Array.from(counts)
    .sort(([, a], [, b]) => b - a)
    .map(([rule, count]) => `${count} ${rule}`)
    .join(', ');
}
