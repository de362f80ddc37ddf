import type { Books } from '../stage/books.ts';
import type { StageEvent, StageRecord } from '../stage/stage-event.ts';
import { after, INITIAL_STATE, type StageState } from '../stage/stage-state.ts';
import { timelineLine } from '../view/timeline-line.ts';
import { holdingsAfter, type Holding } from './holding.ts';
import { storiesAfter, type Story } from './story.ts';

/** Number of refusals, double bookings and lines of the timeline that are kept. */
const KEPT_NOTICES = 8;
const KEPT_LINES = 40;

/** A write that the database refused. Times in ms since the start. */
export interface Refusal {
  readonly id: number;
  readonly atMs: number;
  readonly worker: number;
  readonly seatId: string;
  readonly customer: string;
  /** Decimal. */
  readonly token: string;
  /** The newer token that the database had seen, decimal. */
  readonly newerToken?: string;
  readonly isRefunded: boolean;
}

/** A seat for which the database has more than one ticket. */
export interface DoubleBooking {
  readonly id: number;
  readonly atMs: number;
  readonly seatId: string;
  /** Customers in the order of their tickets. */
  readonly customers: readonly string[];
}

/** A seat as the database has it. */
export interface SeatState {
  readonly id: string;
  /** Everybody who has a ticket for it, in the order of their tickets. */
  readonly customers: readonly string[];
}

/** A booking that was asked for and has not ended. */
export interface AskedBooking {
  readonly worker: number;
  readonly seatId: string;
  readonly customer: string;
  /** Booking with the fence in the database, or with the lock alone. */
  readonly fenced: boolean;
}

export interface TimelineEntry {
  readonly id: number;
  readonly atMs: number;
  readonly text: string;
  readonly tone: 'plain' | 'good' | 'bad';
}

/** State of the sale now. Made from the recorded events alone. */
export interface SaleState {
  /** Nodes, workers and counts. */
  readonly stage: StageState;
  readonly addresses: readonly string[];
  /** Time until which each node may not vote, by address, in ms since the start. */
  readonly quarantineUntilMs: Readonly<Record<string, number>>;
  /** Addresses of restarted nodes that no worker has met again. */
  readonly rejoining: readonly string[];
  readonly canFault: boolean;
  readonly isFenced: boolean;
  readonly isFreezing: boolean;
  readonly evening: number;
  readonly seats: readonly SeatState[];
  readonly asked: readonly AskedBooking[];
  readonly holdings: readonly Holding[];
  /** Stories, at most one with the fence and one without. */
  readonly stories: readonly Story[];
  /** The newest first. */
  readonly refusals: readonly Refusal[];
  readonly refusalCount: number;
  /** The newest first. */
  readonly doubleBookings: readonly DoubleBooking[];
  readonly doubleBookingCount: number;
  /** The newest first. */
  readonly timeline: readonly TimelineEntry[];
  /** Number of ids that were given. */
  readonly lastId: number;
}

export const INITIAL_SALE_STATE: SaleState = Object.freeze({
  stage: INITIAL_STATE,
  addresses: [],
  quarantineUntilMs: {},
  rejoining: [],
  canFault: false,
  isFenced: true,
  isFreezing: false,
  evening: 0,
  seats: [],
  asked: [],
  holdings: [],
  stories: [],
  refusals: [],
  refusalCount: 0,
  doubleBookings: [],
  doubleBookingCount: 0,
  timeline: [],
  lastId: 0,
});

/** The state after one more event. */
export function saleAfter(before: SaleState, record: StageRecord): SaleState {
  const state = {
    ...before,
    stage: after(before.stage, record.event),
    asked: askedAfter(before.asked, record.event),
    holdings: holdingsAfter(before.holdings, record),
    stories: storiesAfter(before.stories, record),
  };
  return withLine(withEvent(state, record), record);
}

function withEvent(state: SaleState, { atMs, event }: StageRecord): SaleState {
  switch (event.type) {
    case 'opened':
      return { ...state, addresses: event.nodes, canFault: event.canFault };
    case 'node':
      return event.state === 'killed'
        ? withRejoining(state, state.addresses[event.node - 1])
        : state;
    case 'evening-opened': {
      const seats = event.seats.map((id) => ({ id, customers: [] }));
      return { ...state, evening: event.evening, seats };
    }
    case 'fence-switched':
      return { ...state, isFenced: event.isOn };
    case 'holder-freeze':
      return { ...state, isFreezing: event.isUnderWay };
    case 'books-read':
      return event.evening === state.evening ? withBooks(state, event.books, atMs) : state;
    case 'lock':
      return event.event.type === 'node-joined'
        ? withQuarantine(state, event.event.address, atMs + event.event.quarantineMs)
        : state;
    case 'step':
      return withStep(state, atMs, event);
    default:
      return state;
  }
}

function askedAfter(asked: readonly AskedBooking[], event: StageEvent): readonly AskedBooking[] {
  switch (event.type) {
    case 'booking-asked': {
      const { worker, seatId, customer, fenced } = event;
      return [...asked, { worker, seatId, customer, fenced }];
    }
    case 'booking-ended': {
      const { worker, seatId, customer } = event.result;
      return asked.filter(
        (each) => each.worker !== worker || each.seatId !== seatId || each.customer !== customer,
      );
    }
    case 'worker':
      return event.state === 'gone' ? asked.filter(({ worker }) => worker !== event.worker) : asked;
    default:
      return asked;
  }
}

function withBooks(state: SaleState, { tickets }: Books, atMs: number): SaleState {
  const seats = state.seats.map(({ id }) => ({
    id,
    customers: tickets.filter(({ seat }) => seat === id).map(({ customer }) => customer),
  }));
  const found = seats.filter(
    ({ customers }, index) =>
      customers.length > 1 && customers.length > (state.seats[index]?.customers.length ?? 0),
  );
  const added = found.map(({ id, customers }, index) => ({
    id: state.lastId + index + 1,
    atMs,
    seatId: id,
    customers,
  }));
  return {
    ...state,
    seats,
    doubleBookings: [...added.reverse(), ...state.doubleBookings].slice(0, KEPT_NOTICES),
    doubleBookingCount: state.doubleBookingCount + added.length,
    lastId: state.lastId + added.length,
  };
}

/** Workers each report on their own; the latest end counts. */
function withQuarantine(state: SaleState, address: string, untilMs: number): SaleState {
  const latest = Math.max(untilMs, state.quarantineUntilMs[address] ?? 0);
  const rejoining = state.rejoining.filter((each) => each !== address);
  return {
    ...state,
    rejoining,
    quarantineUntilMs: { ...state.quarantineUntilMs, [address]: latest },
  };
}

function withRejoining(state: SaleState, address = ''): SaleState {
  return { ...state, rejoining: [...state.rejoining, address] };
}

function withStep(
  state: SaleState,
  atMs: number,
  { worker, step }: Extract<StageEvent, { type: 'step' }>,
): SaleState {
  const { name, seatId, customer, token, newerToken } = step;
  if (name === 'refunded') {
    const refusals = state.refusals.map((refusal) =>
      refusal.token === token && refusal.seatId === seatId
        ? { ...refusal, isRefunded: true }
        : refusal,
    );
    return { ...state, refusals };
  }
  if (name !== 'refused') return state;
  const id = state.lastId + 1;
  const refusal = { id, atMs, worker, seatId, customer, token, newerToken, isRefunded: false };
  return {
    ...state,
    refusals: [refusal, ...state.refusals].slice(0, KEPT_NOTICES),
    refusalCount: state.refusalCount + 1,
    lastId: id,
  };
}

function withLine(state: SaleState, { atMs, event }: StageRecord): SaleState {
  const text = timelineLine(event, false, (_, plain) => plain);
  if (text === undefined) return state;
  const id = state.lastId + 1;
  const line = { id, atMs, text: text.trim(), tone: toneOf(event) };
  return { ...state, timeline: [line, ...state.timeline].slice(0, KEPT_LINES), lastId: id };
}

function toneOf(event: StageEvent): TimelineEntry['tone'] {
  switch (event.type) {
    case 'narrated':
      return event.tone ?? 'plain';
    case 'node':
      return event.state === 'up' ? 'good' : 'bad';
    case 'worker':
      return 'bad';
    case 'booking-ended':
      return 'bad';
    case 'step':
      return event.step.name === 'refused' ? 'bad' : 'plain';
    default:
      return 'plain';
  }
}
