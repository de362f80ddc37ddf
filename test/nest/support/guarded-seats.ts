import { Logger } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { FencedUsageError, StaleTokenError } from '../../../lib/core/errors.ts';
import {
  Fenced,
  LockSignal,
  lockSignal,
  type FencedOptions,
  type FencingToken,
  type RedlockModuleOptions,
} from '../../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../../lib/testing/index.ts';
import { closeAll, silentLogger } from './applications.ts';
import { CriticalSection, Gate } from './critical-section.ts';

/** One try only: tests of errors should not wait. */
const options = { wait: 0, ttl: 1_000 } satisfies FencedOptions;

/** Locked methods that end as their names say, for handlers of every transport. */
export class GuardedSeats {
  entered = new Gate();

  @Fenced('seat:1', options)
  async book(): Promise<string> {
    return 'booked';
  }

  /** Until its lock is lost. */
  @Fenced('seat:1', options)
  async hold(@LockSignal() signal = lockSignal()): Promise<string> {
    this.entered.open();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return 'held';
  }

  async stale(): Promise<string> {
    throw new StaleTokenError('seat:1', '33', '34');
  }

  /** A fault of the application. */
  async misuse(): Promise<string> {
    throw new FencedUsageError('used wrongly');
  }

  async other(): Promise<string> {
    throw new Error('something else');
  }
}

const section = new CriticalSection();

/** The body of a handler that must run for one call at a time. */
export async function visit(id: string, token?: FencingToken): Promise<string> {
  await section.visit();
  return `${id} ${token?.keys.join()}`;
}

export type Answer = Record<string, unknown>;

/** Starts an application on one transport. */
export type StartTransport = (redlock: RedlockModuleOptions) => Promise<{
  app: { close(): Promise<unknown> };
  seats: GuardedSeats;
  /** Calls the method of {@link GuardedSeats} that is named. */
  call: (method: string) => Promise<Answer>;
  /** Calls the handler with `@Fenced` at that place, which visits the seat `1`. */
  book: (place: Place) => Promise<unknown>;
}>;

type Place = 'above' | 'below';

/** What every transport has to do, as a suite of its own. `expected` adds to what all answer. */
export function itServes(
  name: string,
  start: StartTransport,
  expected: { readonly all: Answer; readonly shutdown: Answer },
): void {
  describe.each([name])('over %s', () => {
    afterEach(closeAll);

    it.each<Place>(['above', 'below'])('locks a handler with @Fenced %s', async (place) => {
      section.reset();
      const { book } = await start({ nodes: createMemoryNodes(3) });
      const answers = await Promise.all([1, 2, 3].map(() => book(place)));
      expect(answers).toEqual(['1 seat:1', '1 seat:1', '1 seat:1']);
      expect([section.entered, section.mostInside]).toEqual([3, 1]);
    });

    it('answers every lock error by its meaning, and logs faults of the application only', async () => {
      const answers = await answersToAll(start);
      expect(answers).toMatchObject(MEANINGS);
      expect(answers).toMatchObject(expected.all);
      // Only the newer holder needs its token.
      expect(JSON.stringify(answers.stale)).not.toContain('34');
    });

    it('answers calls that a shutdown refuses or cuts off', async () => {
      expect(await answersOfShutdown(start)).toMatchObject(expected.shutdown);
    });
  });
}

/**
 * Brings about each error in an application and collects what a call was answered, by the name of the error, and what was logged
 * as an error for those that are no fault of the application.
 */
async function answersToAll(start: StartTransport): Promise<Record<string, unknown>> {
  const nodes = createMemoryNodes(3);
  const { seats, call } = await start({ nodes, nodeTimeout: 50, shutdownTimeout: 0 });
  const errors = recordErrors();
  const answers: Record<string, unknown> = { done: await call('book'), errors };
  const other = await occupy(nodes, 'seat:1');
  answers.busy = await call('book');
  await other.release();
  const holding = call('hold');
  await seats.entered.opened;
  const newer = await occupy(nodes, 'seat:1', { takeOver: true });
  answers.lost = await holding;
  await newer.release();
  answers.stale = await call('stale');
  for (const node of nodes) node.kill();
  answers.outage = await call('book');
  const faults = recordErrors();
  answers.misuse = await call('misuse');
  answers.other = await call('other');
  return { ...answers, faults: faults.length };
}

/** Shuts an application down beneath a call that does not end by itself. */
export async function answersOfShutdown(start: StartTransport): Promise<Record<string, unknown>> {
  const { app, seats, call } = await start({ nodes: createMemoryNodes(3), shutdownTimeout: '2s' });
  const errors = recordErrors();
  const holding = call('hold');
  await seats.entered.opened;
  const closed = app.close();
  const refused = await call('book');
  const cutOff = await holding;
  await closed;
  return { refused, cutOff, errors };
}

function recordErrors(): unknown[] {
  const errors: unknown[] = [];
  // An outage is an error of its own in the log, once, by the module; here those of calls count.
  const error = (...entry: unknown[]) =>
    void (entry.at(-1) !== 'RedlockModule' && errors.push(entry));
  Logger.overrideLogger({ ...silentLogger, error, fatal: error });
  return errors;
}

/** What every transport answers, by the name of the error. */
const MEANINGS = {
  busy: { code: 'LOCK_BUSY', retryAfterSeconds: 10 },
  lost: { code: 'LOCK_LOST' },
  stale: { code: 'STALE_TOKEN', key: 'seat:1', token: '33' },
  outage: { code: 'QUORUM_UNAVAILABLE', retryAfterSeconds: 1 },
  errors: [],
  faults: 2,
} as const;

/** What every transport answers during a shutdown. */
export const SHUTDOWN = {
  refused: { code: 'REDLOCK_CLOSED', retryAfterSeconds: 1 },
  cutOff: { code: 'LOCK_LOST', retryAfterSeconds: 1 },
  errors: [],
} as const;
