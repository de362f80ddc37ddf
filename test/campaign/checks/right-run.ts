import type { AccessEvent, CampaignEvent } from '../campaign-event.ts';
import {
  answered,
  asked,
  granted,
  lost,
  mark,
  released,
  releaseAnswered,
  stalled,
} from './written-events.ts';

/** One use of a lock. */
export interface Turn {
  readonly keys: readonly string[];
  readonly process: string;
  /** How long the keys were free before it; somebody asked all that time. */
  readonly gapMs: number;
  readonly holdMs: number;
  /** The process stalls until the lock has run out, and then still writes. */
  readonly runsOut: boolean;
}

const TTL_MS = 1_000;
const VALIDITY_MS = 988;
const START_MS = 1_000;

/** The history of a run in which everything is right, with these turns one after the other on each key. */
export function rightRun(turns: readonly Turn[]): CampaignEvent[] {
  const freeAt = new Map<string, number>();
  const events: CampaignEvent[] = [mark(0, { mark: 'measuring' })];
  const accesses: Omit<AccessEvent, 'accepted' | 'value' | 'view'>[] = [];
  let endsAt = START_MS;
  for (const [index, { keys, process, gapMs, holdMs, runsOut }] of turns.entries()) {
    const name = `${index}`;
    const from = Math.max(...keys.map((key) => freeAt.get(key) ?? START_MS));
    const at = from + gapMs;
    const until = runsOut ? at + VALIDITY_MS : at + holdMs;
    const own = { process, keys };
    events.push(
      asked(name, from, own),
      granted(name, at, { ...own, token: index + 1, validUntil: at + VALIDITY_MS }),
      answered(name, at, { process }),
    );
    const access = (operation: AccessEvent['operation'], when: number): void => {
      for (const key of keys) {
        const who = { process: 'resource', holder: name, token: index + 1 } as const;
        accesses.push({ type: 'access', ...who, operation, key, at: when });
      }
    };
    access('read', at + 1);
    if (runsOut) {
      // Longer than others need to come next, so that some find it stale.
      const wakesAt = at + TTL_MS + holdMs;
      events.push(stalled(process, at + 2, wakesAt), { ...lost(name, wakesAt), process });
      access('write', wakesAt + 1);
    } else {
      access('write', at + holdMs - 1);
      events.push(released(name, until, process), releaseAnswered(name, until + 1, process));
    }
    for (const key of keys) freeAt.set(key, until);
    endsAt = Math.max(endsAt, until);
  }
  events.push(mark(endsAt + 2 * TTL_MS, { mark: 'measured' }));
  return [...events, ...resource(accesses.sort((a, b) => a.at - b.at))];
}

/** What two views make of the same accesses. */
function resource(
  accesses: readonly Omit<AccessEvent, 'accepted' | 'value' | 'view'>[],
): AccessEvent[] {
  const numbers = { fenced: new Map<string, number>(), unfenced: new Map<string, number>() };
  const claims = new Map<string, number>();
  const read = new Map<string, number>();
  return accesses.flatMap((access) => {
    const { key, token, operation, holder } = access;
    const isNewest = token >= (claims.get(key) ?? 0);
    if (isNewest) claims.set(key, token);
    return (['fenced', 'unfenced'] as const).map((view): AccessEvent => {
      const accepted = view === 'unfenced' || isNewest;
      const seen = `${view} ${holder} ${key}`;
      const present = numbers[view].get(key) ?? 0;
      if (operation === 'read') read.set(seen, present);
      const value = operation === 'read' ? present : read.get(seen)! + 1;
      if (operation === 'write' && accepted) numbers[view].set(key, value);
      return { ...access, view, accepted, value };
    });
  });
}
