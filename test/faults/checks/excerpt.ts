import type { CampaignEvent } from '../campaign-event.ts';
import { timeOf } from './run-facts.ts';
import type { CampaignViolation } from './run-verdict.ts';

const AROUND_MS = 1_500;
/** More lines than anybody reads; the rest says how many there are. */
const SHOWN_EVENTS = 200;

/**
 * The history around a violation that has a time: events of its keys, or of its process when it has none, one per line, with
 * the time relative to the violation. What happened to processes and what the campaign did is always there.
 */
export function excerptAround(
  violation: CampaignViolation,
  events: readonly CampaignEvent[],
): string[] {
  const { at = 0, key, process, rule } = violation;
  const namesOf = keysByName(events);
  const keys = new Set(key?.split(','));
  const concerns = (event: CampaignEvent): boolean => {
    if (event.type === 'mark' || event.type === 'stalled' || event.type === 'problem') return true;
    if (key === undefined) return event.process === process;
    return keysOf(event, namesOf).some((name) => keys.has(name));
  };
  const around = events
    .filter((event) => Math.abs(timeOf(event) - at) <= AROUND_MS && concerns(event))
    .sort((a, b) => timeOf(a) - timeOf(b));
  const shown = nearest(around, at);
  return [
    `Around ${rule} at ${at.toFixed(3)} ms, ${key === undefined ? (process ?? 'everybody') : `'${key}'`}, ${shown.length} of ${around.length} events:`,
    ...shown.map((event) => describeEvent(event, at, namesOf)),
  ];
}

/** One line for an event, with its time relative to `at`. */
function describeEvent(
  event: CampaignEvent,
  at: number,
  namesOf: ReadonlyMap<string, readonly string[]>,
): string {
  const relative = (time: number): string => `${time < at ? '' : '+'}${(time - at).toFixed(1)}`;
  const details = Object.entries(event)
    .filter(([name]) => !SAID_BEFORE.has(name))
    .map(([name, value]: [string, unknown]) => {
      const isTime = TIMES.has(name) && typeof value === 'number';
      return `${name}=${isTime ? relative(value) : onOneLine(String(value))}`;
    });
  const { type, process } = event;
  return [
    relative(timeOf(event)).padStart(9),
    process,
    type,
    keysOf(event, namesOf).join(),
    ...details,
  ]
    .filter((part) => part !== '')
    .join(' ');
}

/** What stands at the begin of a line. */
const SAID_BEFORE: ReadonlySet<string> = new Set(['type', 'process', 'at', 'key', 'keys']);
const TIMES: ReadonlySet<string> = new Set(['startedAt', 'validUntil', 'from', 'to']);

/** A text with its line breaks taken out. */
export function onOneLine(text: string): string {
  return text.trim().replaceAll(/\s*\n\s*/g, ' ');
}

/** The keys of each holder and each call. */
function keysByName(events: readonly CampaignEvent[]): Map<string, readonly string[]> {
  const names = new Map<string, readonly string[]>();
  for (const event of events) {
    if (event.type === 'granted') names.set(event.holder, event.keys);
    else if (event.type === 'asked') names.set(event.call, event.keys);
  }
  return names;
}

function keysOf(
  event: CampaignEvent,
  namesOf: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  if ('keys' in event) return event.keys;
  if ('key' in event) return [event.key];
  if ('holder' in event) return namesOf.get(event.holder) ?? [];
  return 'call' in event ? (namesOf.get(event.call) ?? []) : [];
}

/** So many as are shown, none of the others nearer to `at`; expects them in order. */
function nearest(events: readonly CampaignEvent[], at: number): readonly CampaignEvent[] {
  let from = 0;
  let to = events.length;
  while (to - from > SHOWN_EVENTS) {
    if (at - timeOf(events[from]!) > timeOf(events[to - 1]!) - at) from += 1;
    else to -= 1;
  }
  return events.slice(from, to);
}
