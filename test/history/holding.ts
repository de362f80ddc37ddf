import type {
  ExtendedEvent,
  GrantedEvent,
  LeftEvent,
  LockHistoryEvent,
  LostEvent,
  ReenteredEvent,
  ReleasedEvent,
  StepEvent,
} from './lock-history.ts';

/** Grant and everything that happened to it. */
export interface Holding {
  readonly granted: GrantedEvent;
  /** The latest end of validity that the holder knew. */
  readonly validUntil: number;
  readonly extensions: readonly ExtendedEvent[];
  readonly steps: readonly (StepEvent | ReenteredEvent | LeftEvent)[];
  readonly released?: ReleasedEvent;
  readonly lost?: LostEvent;
  /**
   * Time from which others may hold: the end of validity, or the release, or the loss to others, if that came first. Who is
   * notified that the time is over has the rest of it to stop.
   */
  readonly endedAt: number;
}

/**
 * Collects the events of each grant, in order of the moment of the grant.
 *
 * The files of a killed process may lack its last lines, so events without a grant are left out: they say nothing about order.
 * A holder that was granted twice gives two holdings; the later events belong to the last one before them.
 */
export function collectHoldings(history: readonly LockHistoryEvent[]): Holding[] {
  const open = new Map<string, Draft>();
  const drafts: Draft[] = [];
  for (const event of inOrder(history)) {
    if (event.type === 'granted') {
      const draft: Draft = {
        granted: event,
        validUntil: event.validUntil,
        extensions: [],
        steps: [],
      };
      open.set(event.holder, draft);
      drafts.push(draft);
    } else if ('holder' in event) {
      const draft = open.get(event.holder);
      if (draft) add(draft, event);
    }
  }
  return drafts.map((draft) => ({ ...draft, endedAt: endOf(draft) }));
}

/** Describes for people who was granted, with which token, when. */
export function describeGrant({
  token,
  process,
  holder,
  at,
  startedAt,
  validUntil,
}: GrantedEvent): string {
  return `token ${token} of ${process} (holder ${holder}, started ${ms(startedAt)}, granted ${ms(at)}, valid until ${ms(validUntil)})`;
}

/** A time as it stands in messages. */
export function ms(at: number): string {
  return `${at.toFixed(3)} ms`;
}

interface Draft {
  readonly granted: GrantedEvent;
  validUntil: number;
  readonly extensions: ExtendedEvent[];
  readonly steps: (StepEvent | ReenteredEvent | LeftEvent)[];
  released?: ReleasedEvent;
  lost?: LostEvent;
}

type HolderEvent = Exclude<Extract<LockHistoryEvent, { holder: string }>, GrantedEvent>;

function add(draft: Draft, event: HolderEvent): void {
  switch (event.type) {
    case 'extended':
      // Latest word of the holder: after a suspend it knows of less time than before.
      draft.validUntil = event.validUntil;
      draft.extensions.push(event);
      break;
    case 'step':
    case 'reentered':
    case 'left':
      draft.steps.push(event);
      break;
    case 'released':
      draft.released ??= event;
      break;
    case 'lost':
      draft.lost ??= event;
      break;
  }
}

function endOf({ validUntil, released, lost }: Draft): number {
  // Holder itself knows of less time after a suspend.
  const hasTimeLeft = lost?.reason === 'expired' || lost?.reason === 'replaced';
  const lostAt = lost === undefined || hasTimeLeft ? Infinity : lost.at;
  return Math.min(validUntil, released?.at ?? Infinity, lostAt);
}

function inOrder(history: readonly LockHistoryEvent[]): LockHistoryEvent[] {
  return [...history].sort((a, b) => timeOf(a) - timeOf(b));
}

function timeOf(event: LockHistoryEvent): number {
  return event.type === 'stalled' ? event.from : event.at;
}
