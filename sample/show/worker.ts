import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { isRedlockError } from 'nestjs-fenced-lock';
import { Seats, SeatsModule, type Step, type StepName } from './seats.ts';

/** What the conductor asks of a worker. */
export type Command =
  | {
      readonly type: 'book';
      readonly id: number;
      readonly seat: string;
      readonly customer: string;
      /** With the fence in the database, or with the lock alone. */
      readonly fenced: boolean;
      /** The booking stays at this step until `go`. */
      readonly holdAfter?: StepName;
    }
  | { readonly type: 'go'; readonly customer: string }
  | { readonly type: 'shut-down' };

/** The end of a booking, as the process that did it sees it. */
export interface Outcome {
  readonly outcome: 'booked' | 'taken' | 'failed';
  /** The code of one of the documented errors, or the name of another one. */
  readonly code?: string;
  readonly message?: string;
}

export type Message =
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'step'; readonly step: Step }
  | ({ readonly type: 'ended'; readonly id: number } & Outcome);

/** A conductor that was killed this moment is no error of the worker. */
const send = (message: Message): void =>
  void (process.connected && process.send?.(message, undefined, undefined, () => undefined));

/** The steps at which bookings wait, by customer. */
const held = new Map<string, { readonly name: StepName; go?: () => void }>();

async function record(step: Step): Promise<void> {
  send({ type: 'step', step });
  const hold = held.get(step.customer);
  if (hold?.name !== step.name) return;
  await new Promise<void>((resolve) => (hold.go = resolve));
}

/** The Nest application, which does what the conductor asks for. */
async function work(): Promise<void> {
  const app = await NestFactory.createApplicationContext(SeatsModule.register({ record }), {
    logger: false,
    abortOnError: false,
  });
  const seats = app.get(Seats);

  process.on('message', (command: Command) => {
    switch (command.type) {
      case 'book': {
        const { id, seat, customer, fenced, holdAfter } = command;
        if (holdAfter) held.set(customer, { name: holdAfter });
        const booking = fenced
          ? seats.book(seat, customer)
          : seats.bookWithoutFence(seat, customer);
        const ended = booking.finally(() => held.delete(customer));
        return void ended.then(
          (outcome) => send({ type: 'ended', id, outcome }),
          (error: Error) => {
            const code = isRedlockError(error) ? error.code : error.name;
            send({ type: 'ended', id, outcome: 'failed', code, message: error.message });
          },
        );
      }
      case 'go':
        return held.get(command.customer)?.go?.();
      case 'shut-down':
        return leave(app.close());
    }
  });
  send({ type: 'ready' });
}

/** Closes the channel after `last`. The process then ends by itself, unless something was left open. */
function leave(last: Promise<void>): void {
  process.off('disconnect', abandon);
  last
    .catch((error: Error) => send({ type: 'failed', message: error.message }))
    .finally(() => process.disconnect());
}

/** A conductor that was killed takes its workers with it. */
function abandon(): never {
  process.exit(1);
}

process.on('disconnect', abandon);
// Ctrl-C reaches every process of the terminal; the conductor decides when a worker goes.
process.on('SIGINT', () => undefined);
work().catch((error: unknown) => {
  process.exitCode = 1;
  leave(Promise.reject(error));
});
