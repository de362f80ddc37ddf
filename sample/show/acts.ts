import type { Books } from './database.ts';
import type { Stage } from './stage.ts';
import { pauseHolder } from './pause-holder.ts';

/** What was promised, and what was seen. */
export interface Finding {
  readonly promised: string;
  readonly observed: string;
  readonly isKept: boolean;
}

type Observe = (promised: string, isKept: boolean, observed: string) => void;

/** A scene of the show, and how it is played. What it observes comes from the database and from what the workers reported. */
export interface Act {
  readonly title: string;
  play(stage: Stage, observe: Observe): Promise<void>;
}

const serverDies: Act = {
  title: 'A server dies in the middle of a sale',
  async play(stage, observe) {
    const seats = ['A1', 'A2', 'A3'];
    stage.log.tell(`ana, ben and cleo want ${seats.join(', ')}, each through another worker`);
    const underWay = stage.log.next(({ type }) => type === 'step');
    const sale = Promise.all(
      seats.flatMap((seat, row) =>
        ['ana', 'ben', 'cleo'].map((customer, column) =>
          stage.worker(((row + column) % stage.workers.length) + 1).book(seat, customer),
        ),
      ),
    );
    await Promise.race([underWay, sale]);
    if (stage.canKill) await stage.killServer(1);
    else stage.log.tell('no server is killed: the show has started none that keeps locks');
    await sale;
    if (stage.canKill) await stage.startServer(1);

    const books = await stage.database.books(seats);
    const wrong = wronglySold(books, seats);
    observe(
      'every seat is sold, to one customer',
      wrong.length === 0,
      wrong.join(', ') || `${books.tickets.length} tickets for ${seats.length} seats`,
    );
    const open = unsettled(books);
    observe(
      'who has paid has a seat, and nobody else',
      open.length === 0,
      open.join(', ') || `${books.payments.length} payments`,
    );
  },
};

const staleHolder: Act = {
  title: 'A holder comes back from the dead',
  async play(stage, observe) {
    const tokens: bigint[] = [];
    stage.log.subscribe((event) => {
      if (event.type === 'step' && event.seat === 'D1' && event.name === 'claimed')
        tokens.push(BigInt(event.token));
    });
    const { code = 'written' } = await pauseHolder(stage, {
      fenced: true,
      seat: 'D1',
      holder: { worker: 1, customer: 'ana' },
      successor: { worker: 2, customer: 'ben' },
    });
    const { tickets, payments } = await stage.database.books(['D1']);
    const seated = namesOf(tickets);
    observe(
      'the next holder has a higher token',
      tokens.length === 2 && tokens[0]! < tokens[1]!,
      tokens.join(' < '),
    );
    const isRejected = code === 'STALE_TOKEN' && seated === 'ben';
    observe('the late write is rejected', isRejected, `${code}; D1 is sold to ${seated}`);
    const refunded = namesOf(payments.filter((payment) => payment.refunded));
    observe('the late customer is refunded', refunded === 'ana', `${refunded} has the money back`);
    if (isRejected) stage.log.tell('D1 belongs to ben, and ana has her money back', 'good');
  },
};

const withoutFence: Act = {
  title: 'The same without the fence',
  async play(stage, observe) {
    const { code } = await pauseHolder(stage, {
      fenced: false,
      seat: 'D2',
      holder: { worker: 1, customer: 'cleo' },
      successor: { worker: 2, customer: 'dan' },
    });
    const { tickets, payments } = await stage.database.books(['D2']);
    const seated = namesOf(tickets);
    const isSoldTwice = seated === 'dan and cleo' && payments.every(({ refunded }) => !refunded);
    observe('the lock alone lets a seat be sold twice', isSoldTwice, `D2 is sold to ${seated}`);
    observe('it reports the loss, after the write', code === 'LOCK_LOST', `${code}`);
    if (isSoldTwice) stage.log.tell('D2 is sold twice: dan and cleo have paid', 'bad');
  },
};

const holderDies: Act = {
  title: 'A holder dies',
  async play(stage, observe) {
    const claimed = stage.log.next(({ type }) => type === 'step');
    const lost = stage.worker(3).book('E1', 'eve', { holdAfter: 'claimed' });
    await Promise.race([claimed, lost]);
    await stage.worker(3).kill();
    stage.log.tell(
      'worker 3 is killed (SIGKILL) before eve pays; fay waits for the lock to run out',
    );
    const { outcome, code } = await stage.worker(2).book('E1', 'fay');
    observe('the seat goes to the next one', outcome === 'booked', `fay: ${code ?? outcome}`);
    const { payments } = await stage.database.books(['E1']);
    observe('only the next one has paid', namesOf(payments) === 'fay', namesOf(payments));
  },
};

const curtain: Act = {
  title: 'Curtain',
  async play(stage, observe) {
    const left = stage.workers.filter(({ state }) => state !== 'gone');
    const ended = await Promise.all(left.map((worker) => worker.shutDown()));
    const count = ended.filter(Boolean).length;
    observe('the other workers end by themselves', count === left.length, `${count} workers`);
  },
};

/** The acts, in the order in which they are played. */
export const ACTS: readonly Act[] = [serverDies, staleHolder, withoutFence, holderDies, curtain];

/** Plays the acts in turn. One that breaks off is a promise that was not kept, and the next one is played all the same. */
export async function playActs(stage: Stage, acts: readonly Act[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const [index, act] of acts.entries()) {
    stage.log.tell(`${index + 1}. ${act.title}`, 'title');
    try {
      await act.play(stage, (promised, isKept, observed) =>
        findings.push({ promised, isKept, observed }),
      );
    } catch (error) {
      const observed = error instanceof Error ? error.message : String(error);
      findings.push({ promised: `act ${index + 1} comes to its end`, isKept: false, observed });
    }
  }
  return findings;
}

/** A show in which nothing was promised has failed, too. */
export function exitCodeOf(findings: readonly Finding[]): 0 | 1 {
  return findings.length > 0 && findings.every(({ isKept }) => isKept) ? 0 : 1;
}

/** The seats that were not sold to exactly one customer, each with what was found. */
export function wronglySold({ tickets }: Books, seats: readonly string[]): string[] {
  return seats.flatMap((seat) => {
    const buyers = tickets.filter((ticket) => ticket.seat === seat);
    return buyers.length === 1 ? [] : [`${seat} is sold to ${namesOf(buyers)}`];
  });
}

/** Customers whose money and tickets don't match. */
export function unsettled({ tickets, payments }: Books): string[] {
  const counts = new Map<string, number>();
  const count = ({ seat, customer }: { seat: string; customer: string }, change: number): void => {
    const key = `${customer} for ${seat}`;
    counts.set(key, (counts.get(key) ?? 0) + change);
  };
  for (const payment of payments) if (!payment.refunded) count(payment, 1);
  for (const ticket of tickets) count(ticket, -1);
  return [...counts]
    .filter(([, paid]) => paid !== 0)
    .map(([who, paid]) => `${who}: ${paid > 0 ? 'paid, and has no ticket' : 'has not paid'}`);
}

function namesOf(rows: readonly { readonly customer: string }[]): string {
  return rows.map(({ customer }) => customer).join(' and ') || 'nobody';
}
