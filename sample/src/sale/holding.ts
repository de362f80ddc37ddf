import type { LockInspection } from 'nestjs-fenced-lock';
import type { BookingStep } from '../seats/booking-journal.ts';
import type { StageRecord } from '../stage/stage-event.ts';

/** Fate of a holder's write. */
export type HoldingOutcome = 'open' | 'booked' | 'taken' | 'refused' | 'failed';

/** Worker inside its critical section, from the claim in the database until the booking ended. Times in ms since the start. */
export interface Holding {
  readonly worker: number;
  readonly seatId: string;
  readonly customer: string;
  /** Decimal. */
  readonly token: string;
  /** Identity of the grant, as the nodes know it. */
  readonly holder: string;
  readonly fromMs: number;
  readonly isPaid: boolean;
  /** When the nodes let the lock run out, by what they said last; undefined before they were asked. */
  readonly leaseUntilMs?: number;
  /** Addresses of the nodes that have the lock. */
  readonly nodes: readonly string[];
  /** Since when another one may have the lock: the nodes don't know this holder any more. */
  readonly lostAtMs?: number;
  readonly outcome: HoldingOutcome;
  /** Since when the booking is over. */
  readonly endedMs?: number;
}

/** Time that ended holdings are kept, and how many at most. */
const KEPT_MS = 30_000;
const KEPT = 60;

/** The holdings after one more event. */
export function holdingsAfter(
  holdings: readonly Holding[],
  { atMs, event }: StageRecord,
): readonly Holding[] {
  switch (event.type) {
    case 'step':
      return event.step.name === 'claimed'
        ? [...recent(holdings, atMs), begun(event.worker, event.step, atMs)]
        : change(holdings, event.worker, event.step, (holding) => stepped(holding, event.step));
    case 'lock-inspected':
      return holdings.map((holding) => inspected(holding, event.askedAtMs, atMs, event.inspection));
    case 'booking-ended': {
      const { worker, outcome } = event.result;
      return change(holdings, worker, event.result, (holding) => ({
        ...holding,
        outcome: holding.outcome === 'open' ? outcome : holding.outcome,
        endedMs: atMs,
      }));
    }
    case 'worker':
      return event.state !== 'gone'
        ? holdings
        : holdings.map((holding) =>
            holding.worker === event.worker && holding.endedMs === undefined
              ? { ...holding, outcome: 'failed', endedMs: atMs }
              : holding,
          );
    default:
      return holdings;
  }
}

function begun(worker: number, step: BookingStep, fromMs: number): Holding {
  const { seatId, customer, token, holder } = step;
  return {
    worker,
    seatId,
    customer,
    token,
    holder,
    fromMs,
    isPaid: false,
    nodes: [],
    outcome: 'open',
  };
}

function stepped(holding: Holding, { name }: BookingStep): Holding {
  switch (name) {
    case 'paid':
      return { ...holding, isPaid: true };
    case 'booked':
    case 'refused':
      return { ...holding, outcome: name };
    case 'found-taken':
      return { ...holding, outcome: 'taken' };
    case 'claimed':
    case 'refunded':
      return holding;
  }
}

/** An answer to a question that was asked before the holding began says nothing about it. */
function inspected(
  holding: Holding,
  askedAtMs: number,
  atMs: number,
  { key, holder, remainingMs, nodes }: LockInspection,
): Holding {
  if (holding.endedMs !== undefined || askedAtMs < holding.fromMs) return holding;
  if (key !== `seat:${holding.seatId}`) return holding;
  const having = nodes.filter((node) => node.holder === holding.holder);
  const addresses = having.map(({ address }) => address);
  if (holder === holding.holder) {
    return { ...holding, nodes: addresses, leaseUntilMs: atMs + remainingMs, lostAtMs: undefined };
  }
  const answers = nodes.filter(({ failure }) => !failure).length;
  // Nodes that say nothing may still have it; only a majority that does not is the end of a lock.
  const hasMajorityWithout = answers - having.length > nodes.length / 2;
  const lostAtMs =
    holding.lostAtMs ??
    (hasMajorityWithout ? Math.min(holding.leaseUntilMs ?? atMs, atMs) : undefined);
  return { ...holding, nodes: addresses, lostAtMs };
}

/** Changes the open holding of this worker for this seat and customer. */
function change(
  holdings: readonly Holding[],
  worker: number,
  { seatId, customer }: Pick<Holding, 'seatId' | 'customer'>,
  changed: (holding: Holding) => Holding,
): readonly Holding[] {
  return holdings.map((holding) =>
    holding.endedMs === undefined &&
    holding.worker === worker &&
    holding.seatId === seatId &&
    holding.customer === customer
      ? changed(holding)
      : holding,
  );
}

function recent(holdings: readonly Holding[], atMs: number): readonly Holding[] {
  return holdings
    .filter(({ endedMs }) => endedMs === undefined || endedMs > atMs - KEPT_MS)
    .slice(1 - KEPT);
}
