import { groupBy } from '../../history/group-by.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { timeOf } from './run-facts.ts';
import type { CampaignViolation, RunVerdict } from './run-verdict.ts';

const SHOWN_VIOLATIONS = 10;
const AROUND_MS = 1_500;
/** More lines than anybody reads; the rest says how many there are. */
const SHOWN_EVENTS = 200;

type KeysByName = ReadonlyMap<string, readonly string[]>;

/** For people: what was broken how often, the first violations, and what happened around the first of them. */
export function describeVerdict(
  { violations }: RunVerdict,
  events: readonly CampaignEvent[],
): string {
  if (violations.length === 0) return 'No violation.';
  // The most frequent first.
  const counts = Array.from(groupBy(violations, ({ rule }) => [rule]))
    .sort(([, a], [, b]) => b.length - a.length)
    .map(([rule, broken]) => `${broken.length} ${rule}`);
  const left = violations.length - SHOWN_VIOLATIONS;
  const first = violations.find(({ at }) => at !== undefined);
  return [
    `${violations.length} violation${violations.length === 1 ? '' : 's'}: ${counts.join(', ')}`,
    ...violations
      .slice(0, SHOWN_VIOLATIONS)
      .map(({ rule, message }) => `- ${rule}: ${onOneLine(message)}`),
    ...(left > 0 ? [`  and ${left} more`] : []),
    ...(first ? ['', ...excerptAround(first, events)] : []),
  ].join('\n');
}

/**
 * The history around a violation that has a time: events of its keys, or of its process when it has none, one per line, with
 * the time relative to the violation. What happened to processes, servers and network is always there.
 */
function excerptAround(
  { at = 0, key, process, rule }: CampaignViolation,
  events: readonly CampaignEvent[],
): string[] {
  const names = keysByName(events);
  const keys = new Set(key?.split(','));
  const concerns = (event: CampaignEvent): boolean => {
    if (ALWAYS_SHOWN.has(event.type)) return true;
    if (key === undefined) return event.process === process;
    return keysOf(event, names).some((name) => keys.has(name));
  };
  const distance = (event: CampaignEvent): number => Math.abs(timeOf(event) - at);
  const around = events.filter((event) => distance(event) <= AROUND_MS && concerns(event));
  const shown = [...around].sort((a, b) => distance(a) - distance(b)).slice(0, SHOWN_EVENTS);
  return [
    `Around ${rule} at ${at.toFixed(3)} ms, ${key === undefined ? (process ?? 'everybody') : `'${key}'`}, ${shown.length} of ${around.length} events:`,
    ...shown.sort((a, b) => timeOf(a) - timeOf(b)).map((event) => describeEvent(event, at, names)),
  ];
}

const ALWAYS_SHOWN: ReadonlySet<string> = new Set(['mark', 'stalled', 'problem', 'fault', 'cut']);
/** What stands at the begin of a line. */
const SAID_BEFORE: ReadonlySet<string> = new Set(['type', 'process', 'at', 'key', 'keys']);
const TIMES: ReadonlySet<string> = new Set(['startedAt', 'validUntil', 'from', 'to']);

/** One line for an event, with its time relative to `at`. */
function describeEvent(event: CampaignEvent, at: number, names: KeysByName): string {
  const relative = (time: number): string => `${time < at ? '' : '+'}${(time - at).toFixed(1)}`;
  const details = Object.entries(event)
    .filter(([name]) => !SAID_BEFORE.has(name))
    .map(([name, value]: [string, unknown]) => {
      const isTime = TIMES.has(name) && typeof value === 'number';
      return `${name}=${isTime ? relative(value) : onOneLine(String(value))}`;
    });
  const { type, process } = event;
  const time = relative(timeOf(event)).padStart(9);
  return [time, process, type, keysOf(event, names).join(), ...details]
    .filter((part) => part !== '')
    .join(' ');
}

function onOneLine(text: string): string {
  return text.trim().replaceAll(/\s*\n\s*/g, ' ');
}

/** The keys of each holder and each call. */
function keysByName(events: readonly CampaignEvent[]): KeysByName {
  const names = new Map<string, readonly string[]>();
  for (const event of events) {
    if (event.type === 'granted') names.set(event.holder, event.keys);
    else if (event.type === 'asked') names.set(event.call, event.keys);
  }
  return names;
}

function keysOf(event: CampaignEvent, names: KeysByName): readonly string[] {
  if ('keys' in event) return event.keys;
  if ('key' in event) return [event.key];
  if ('holder' in event) return names.get(event.holder) ?? [];
  return 'call' in event ? (names.get(event.call) ?? []) : [];
}
