import type { Step } from './seats.ts';
import type { Outcome } from './worker.ts';

export type ServerState = 'up' | 'killed';
export type WorkerState = 'working' | 'stopped' | 'gone';

/** Everything that happens in the show. What people see is made of these alone. */
export type ShowEvent =
  | { readonly type: 'told'; readonly text: string; readonly tone?: 'title' | 'good' | 'bad' }
  | { readonly type: 'server'; readonly server: number; readonly state: ServerState }
  | { readonly type: 'worker'; readonly worker: number; readonly state: WorkerState }
  | ({ readonly type: 'step'; readonly worker: number } & Step)
  | ({ readonly type: 'ended' } & Result)
  /** The database was asked what is sold. */
  | { readonly type: 'books' };

/** The end of one booking. */
export interface Result extends Outcome {
  readonly worker: number;
  readonly seat: string;
  readonly customer: string;
}

/** Tells everybody who listens what happens. */
export class ShowLog {
  readonly #listeners = new Set<(event: ShowEvent) => void>();
  readonly #startedMs = performance.now();

  /** The time since the start, for people. */
  get time(): string {
    return `${((performance.now() - this.#startedMs) / 1000).toFixed(1)} s`;
  }

  append(event: ShowEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  tell(text: string, tone?: 'title' | 'good' | 'bad'): void {
    this.append({ type: 'told', text, tone });
  }

  subscribe(listener: (event: ShowEvent) => void): void {
    this.#listeners.add(listener);
  }

  /** Nobody hears of what happens from now on: everything ends, and that is no part of the show. */
  close(): void {
    this.#listeners.clear();
  }

  /** Resolves at the next event that matches. */
  next(matches: (event: ShowEvent) => boolean): Promise<ShowEvent> {
    return new Promise((resolve) => {
      const listener = (event: ShowEvent): void => {
        if (!matches(event)) return;
        this.#listeners.delete(listener);
        resolve(event);
      };
      this.subscribe(listener);
    });
  }
}

/** Which line the log has for an event: none for one that only moves a picture. */
export function lineOf(event: ShowEvent): string | undefined {
  switch (event.type) {
    case 'told':
      return event.text;
    case 'server':
      return `server ${event.server} is ${event.state}`;
    case 'worker':
      if (event.state === 'working') return undefined;
      return `worker ${event.worker} ${event.state === 'gone' ? 'has ended' : 'is stopped'}`;
    case 'step': {
      const { worker, seat, customer, token, newerToken, name } = event;
      const texts = {
        claimed: `has the lock, token ${token}`,
        taken: 'is too late, and pays nothing',
        paid: 'has paid',
        booked: `has the seat, token ${token}`,
        rejected: `is rejected: the database has seen ${newerToken}`,
        refunded: 'is refunded',
      };
      return `worker ${worker}  ${seatName(seat)}  ${customer.padEnd(4)}  ${texts[name]}`;
    }
    case 'ended': {
      const { worker, seat, customer, code, message = '' } = event;
      // Under `@Fenced` a message begins with the class and the method, and it says at length what to do.
      const what = message.replace(/^\w+\.\w+: /, '').split(/[.:;](?:\s|$)/, 1)[0];
      const who = `worker ${worker}  ${seatName(seat)}  ${customer.padEnd(4)}`;
      return code && `${who}  ${code}: ${what}`;
    }
    case 'books':
      return undefined;
  }
}

/** The first part of the id of a seat. The second is the evening, which only locks and the database have to tell apart. */
export function seatName(seat: string): string {
  return seat.split('/')[0]!;
}
