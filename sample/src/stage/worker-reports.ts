import type { LoggerService } from '@nestjs/common';
import { isRedlockError, type LockEvent } from 'nestjs-fenced-lock';
import type { BookingStep } from '../seats/booking-journal.ts';
import type { ReportedError, WorkerLockEvent, WorkerMessage } from './worker-messages.ts';

/** Sends one message to the conductor; without one, nothing happens. */
export function report(message: WorkerMessage): void {
  // A conductor that was killed this moment is not an error of the worker.
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}

export function reportStep(step: BookingStep): void {
  report({ type: 'step', step });
}

export function reportLockEvent(event: LockEvent): void {
  const sent = workerEvent(event);
  if (sent) report({ type: 'lock', event: sent });
}

/** Sends warnings and errors to the conductor, whose timeline has one place for them. */
export const workerLogger: LoggerService = {
  log: () => undefined,
  warn: (message: unknown) => report({ type: 'logged', text: String(message) }),
  error: (message: unknown) => report({ type: 'logged', text: String(message) }),
  fatal: (message: unknown) => report({ type: 'logged', text: String(message) }),
};

function workerEvent(event: LockEvent): WorkerLockEvent | undefined {
  switch (event.type) {
    case 'acquired':
    case 'released':
    case 'lost':
      return { type: event.type, keys: event.keys, token: event.token };
    case 'node-joined':
      return { type: event.type, address: event.address, quarantineMs: event.quarantineMs };
    case 'node-left':
      return { type: event.type, address: event.address };
    default:
      return undefined;
  }
}

/** The error in a form that survives the way to another process. */
export function reported(error: unknown): ReportedError {
  if (!(error instanceof Error)) {
    return { name: 'Error', message: String(error), isTyped: false, causes: [] };
  }
  const isTyped = isRedlockError(error);
  const causes = 'causes' in error && Array.isArray(error.causes) ? error.causes : [];
  return {
    name: error.name,
    message: error.message,
    isTyped,
    code: isTyped ? error.code : undefined,
    causes: causes.map(({ address, message }: { address: string; message: string }) => ({
      address,
      message,
    })),
  };
}
