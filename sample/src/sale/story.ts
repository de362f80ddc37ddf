import type { StageEvent, StageRecord } from '../stage/stage-event.ts';

/** Progress of a story. The last three are ends. */
export type StoryPhase =
  /** The holder takes the lock and its customer pays. */
  | 'begun'
  /** The holder's process is stopped, and its lock runs out. */
  | 'stopped'
  /** The successor has the lock. */
  | 'ran-out'
  /** The successor has written. */
  | 'seated'
  /** The holder's process goes on where it was: it writes. */
  | 'woken'
  | 'refused'
  | 'sold-twice'
  | 'broken-off';

/** Role in a story: who books its seat, and where. */
export interface StoryRole {
  readonly worker: number;
  readonly customer: string;
}

export interface StoryCast {
  /** Booking with the fence in the database, or with the lock alone. */
  readonly fenced: boolean;
  readonly seatId: string;
  /** Stopped between paying and writing. */
  readonly holder: StoryRole;
  /** Gets the seat meanwhile. */
  readonly successor: StoryRole;
}

interface Actor extends StoryRole {
  /** Decimal; undefined before the lock is held. */
  readonly token?: string;
}

/** Holder that is stopped for longer than its lock lives, as the page draws it. */
export interface Story extends StoryCast {
  readonly phase: StoryPhase;
  readonly holder: Actor;
  readonly successor: Actor;
  /** The number that the database remembers for the seat, decimal; undefined without the fence. */
  readonly floor?: string;
  readonly isRefunded: boolean;
  /** Reason why it broke off. */
  readonly reason?: string;
}

const ENDS: readonly StoryPhase[] = ['refused', 'sold-twice', 'broken-off'];

/** The stories after one more event: the newest one of each kind, with the fence and without. */
export function storiesAfter(stories: readonly Story[], { event }: StageRecord): readonly Story[] {
  if (event.type !== 'story-begun') return stories.map((story) => storyAfter(story, event));
  const { type: _, ...cast } = event;
  const others = stories.filter(({ fenced }) => fenced !== cast.fenced);
  return [...others, { ...cast, phase: 'begun', isRefunded: false }];
}

function storyAfter(story: Story, event: StageEvent): Story {
  switch (event.type) {
    case 'worker':
      return event.worker === story.holder.worker ? withHolder(story, event.state) : story;
    case 'step':
      return event.step.seatId === story.seatId ? withStep(story, event.step) : story;
    case 'books-read': {
      const tickets = event.books.tickets.filter(({ seat }) => seat === story.seatId);
      return tickets.length > 1 ? { ...story, phase: 'sold-twice' } : story;
    }
    case 'story-broken-off':
      return event.fenced === story.fenced && !ENDS.includes(story.phase)
        ? { ...story, phase: 'broken-off', reason: event.reason }
        : story;
    default:
      return story;
  }
}

function withHolder(story: Story, state: 'working' | 'stopped' | 'gone'): Story {
  if (state === 'stopped' && story.phase === 'begun') return { ...story, phase: 'stopped' };
  if (state === 'working' && story.phase === 'seated') return { ...story, phase: 'woken' };
  return story;
}

function withStep(story: Story, step: Extract<StageEvent, { type: 'step' }>['step']): Story {
  const { name, customer, token, newerToken } = step;
  const isHolder = customer === story.holder.customer;
  if (!isHolder && customer !== story.successor.customer) return story;
  switch (name) {
    case 'claimed': {
      const floor = story.fenced ? token : undefined;
      return isHolder
        ? { ...story, floor, holder: { ...story.holder, token } }
        : { ...story, floor, successor: { ...story.successor, token }, phase: 'ran-out' };
    }
    case 'booked':
      return isHolder ? story : { ...story, phase: 'seated' };
    case 'refused':
      return isHolder ? { ...story, phase: 'refused', floor: newerToken ?? story.floor } : story;
    case 'refunded':
      return isHolder ? { ...story, isRefunded: true } : story;
    case 'found-taken':
    case 'paid':
      return story;
  }
}
