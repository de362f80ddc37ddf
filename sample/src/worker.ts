import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { LockService } from 'nestjs-fenced-lock';
import { AppModule } from './app.module.ts';
import { PaymentProvider } from './seats/payment-provider.ts';
import { SeatsService } from './seats/seats.service.ts';
import type { BookingReply, InspectReply, WorkerCommand } from './stage/worker-messages.ts';
import { report, reported, workerLogger } from './stage/worker-reports.ts';

type BookCommand = Extract<WorkerCommand, { type: 'book' }>;

/** Worker process: the Nest application, doing what the conductor asks for. */
async function work(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule, {
    logger: workerLogger,
    abortOnError: false,
  });
  const seats = app.get(SeatsService);
  const payments = app.get(PaymentProvider);
  const locks = app.get(LockService);

  async function book(command: BookCommand): Promise<BookingReply> {
    const { seatId, customer } = command;
    if (command.holdAnswer) payments.holdAnswerBack(customer);
    const outcome = command.fenced
      ? await seats.book(seatId, customer)
      : await seats.bookWithoutFence(seatId, customer);
    return { outcome };
  }

  async function inspect(key: string): Promise<InspectReply> {
    const { holder, remainingMs, lastToken, nodes } = await locks.inspect(key);
    return {
      holder,
      remainingMs,
      lastToken,
      answers: nodes.filter((node) => !node.failure).length,
    };
  }

  process.on('message', (command: WorkerCommand) => {
    switch (command.type) {
      case 'book':
        return answer(command.id, book(command));
      case 'inspect':
        return answer(command.id, inspect(command.key));
      case 'let-answer-through':
        return payments.letAnswerThrough(command.customer);
      case 'shut-down':
        return leave(app.close());
    }
  });
  report({ type: 'ready' });
}

function answer(id: number, result: Promise<BookingReply | InspectReply>): void {
  result.then(
    (value) => report({ type: 'reply', id, value }),
    (error: unknown) => report({ type: 'error-reply', id, error: reported(error) }),
  );
}

/** Closes the channel after `last`. The process then ends by itself, unless something was left open. */
function leave(last: Promise<void>): void {
  process.off('disconnect', abandon);
  last
    .catch((error: unknown) => report({ type: 'failed', error: reported(error) }))
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
