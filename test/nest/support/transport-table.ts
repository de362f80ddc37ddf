import {
  Controller,
  Get,
  HttpCode,
  Logger,
  NotFoundException,
  Param,
  Post,
  SetMetadata,
  UseInterceptors,
  type INestApplication,
} from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { expect, it, jest } from '@jest/globals';
import { FencedUsageError, OnceConflictError, StaleTokenError } from '../../../lib/core/errors.ts';
import {
  Fenced,
  FencedInterceptor,
  FencingToken,
  LockService,
  LockSignal,
  lockSignal,
  type RedlockModuleOptions,
} from '../../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../../lib/testing/index.ts';
import { closeLater, passUntil, silentLogger, stopTime } from './applications.ts';
import { CriticalSection, Gate } from './critical-section.ts';

/** Methods that end as their names say, for handlers of every transport. */
export class GuardedSeats {
  entered = new Gate();

  // A single try: tests of errors should not wait.
  @Fenced('seat:1', { wait: 0 })
  async book(): Promise<string> {
    return 'booked';
  }

  /** Stays inside until its lock is lost. */
  @Fenced('seat:1', { wait: 0 })
  async hold(@LockSignal() signal = lockSignal()): Promise<string> {
    this.entered.open();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return 'held';
  }

  async stale(): Promise<string> {
    throw new StaleTokenError('seat:1', '33', '34');
  }

  async conflict(): Promise<string> {
    throw new OnceConflictError('seat:1');
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

/** An application on one transport. */
interface Surface {
  readonly app: { close(): Promise<unknown> };
  readonly seats: GuardedSeats;
  /** Calls the method of {@link GuardedSeats} that is named. */
  readonly call: (method: string) => Promise<Answer>;
  /** Calls the handler with `@Fenced` at that place, which visits the seat `1`. */
  readonly book: (place: string) => Promise<unknown>;
}

export type StartTransport = (redlock: Partial<RedlockModuleOptions>) => Promise<Surface>;

/** Answers of every transport in each situation; its own table adds to that. */
const MEANINGS: Readonly<Record<string, Answer>> = {
  done: { text: 'booked' },
  busy: { code: 'LOCK_BUSY', retryAfterSeconds: 1 },
  lost: { code: 'LOCK_LOST' },
  stale: { code: 'STALE_TOKEN' },
  conflict: { code: 'ONCE_CONFLICT' },
  outage: { code: 'QUORUM_UNAVAILABLE', retryAfterSeconds: 1 },
  refused: { code: 'REDLOCK_CLOSED', retryAfterSeconds: 1 },
  cutOff: { code: 'LOCK_LOST' },
};

/** Tests one application on the transport, in one situation after the other. */
export function itServes(
  name: string,
  start: StartTransport,
  table: Readonly<Record<string, Answer>>,
): void {
  it(`locks handlers and answers every error by its meaning over ${name}`, async () => {
    const nodes = createMemoryNodes(3);
    const options = { nodes, wait: '1h', restartGuard: false, shutdownTimeout: '2s' } as const;
    const { app, seats, call, book } = await start(options);
    const errors = recordErrors();
    const hold = async () => {
      seats.entered = new Gate();
      const answer = call('hold');
      await seats.entered.opened;
      return { answer };
    };

    section.reset();
    const booked = await Promise.all(['above', 'below', 'above', 'below'].map(book));
    expect(booked).toEqual(booked.map(() => '1 seat:1'));
    expect([section.entered, section.mostInside]).toEqual([4, 1]);

    stopTime();
    const answers: Record<string, Answer> = { done: await call('book') };
    const other = await occupy(nodes, 'seat:1');
    answers.busy = await call('book');
    await other.release();
    const losing = await hold();
    const newer = await occupy(nodes, 'seat:1', { takeOver: true });
    answers.lost = await passUntil(losing.answer, 100);
    await newer.release();
    answers.stale = await call('stale');
    answers.conflict = await call('conflict');
    for (const node of nodes) node.kill();
    answers.outage = await passUntil(call('book'), 100);
    for (const node of nodes) node.restart({ keepData: true });
    await jest.advanceTimersByTimeAsync(100);
    expect(await call('book')).toMatchObject({ text: 'booked' });
    expect(errors).toEqual([]);
    answers.misuse = await call('misuse');
    answers.other = await call('other');
    // Faults of the application only.
    expect(errors.splice(0)).toHaveLength(2);
    const holding = await hold();
    const closed = app.close();
    answers.refused = await call('book');
    answers.cutOff = await passUntil(holding.answer, 100);
    await passUntil(closed, 100);
    expect(errors).toEqual([]);

    const situations = Object.keys({ ...MEANINGS, ...table });
    const expected = situations.map((each) => [each, { ...MEANINGS[each], ...table[each] }]);
    expect(answers).toMatchObject(Object.fromEntries(expected));
    for (const each of [answers.lost, answers.cutOff, answers.stale, answers.conflict])
      expect(each).not.toHaveProperty('retryAfterSeconds');
    expect(JSON.stringify([answers.stale, answers.conflict])).not.toMatch(/seat:1|3[34]/);
  });
}

function recordErrors(): unknown[] {
  const errors: unknown[] = [];
  // An outage is an error of its own in the log, once, by the module; here those of calls count.
  const error = (...entry: unknown[]) =>
    void (entry.at(-1) !== 'RedlockModule' && errors.push(entry));
  Logger.overrideLogger({ ...silentLogger, error, fatal: error });
  return errors;
}

@Controller()
export class SeatController {
  constructor(
    private readonly seats: GuardedSeats,
    private readonly locks: LockService,
  ) {}

  @Get('call/:method')
  handle(@Param('method') method: 'book') {
    return this.seats[method]();
  }

  @Fenced('seat:{0}')
  @Post('above/:id')
  @HttpCode(202)
  @SetMetadata('role', 'clerk')
  async above(@Param('id') id: string, @FencingToken() token?: FencingToken) {
    return visit(id, token);
  }

  @Post('below/:id')
  @HttpCode(202)
  @Fenced('seat:{0}')
  async below(@Param('id') id: string, @FencingToken() token?: FencingToken) {
    return visit(id, token);
  }

  @UseInterceptors(FencedInterceptor)
  @Fenced('seat:{0}', { wait: 0 })
  @Get('missing/:id')
  async missing(@Param('id') id: string): Promise<void> {
    throw new NotFoundException(`no seat ${id}, ${this.locks.current()?.keys.join()}`);
  }
}

export const OVER_HTTP = { controllers: [SeatController], providers: [GuardedSeats] };

/** Additions of HTTP to the meanings. */
export const HTTP_TABLE: Readonly<Record<string, Answer>> = {
  done: { status: 200 },
  busy: { status: 409, statusCode: 409, error: 'Conflict', retryAfter: '1' },
  lost: { status: 500, retryAfter: null },
  stale: { status: 412, error: 'Precondition Failed', retryAfter: null },
  conflict: { status: 422, error: 'Unprocessable Entity', retryAfter: null },
  outage: { status: 503, error: 'Service Unavailable', retryAfter: '1' },
  misuse: { status: 500, message: 'Internal server error' },
  other: { status: 500, message: 'Internal server error' },
  refused: { status: 503, retryAfter: '1' },
  cutOff: { status: 500, retryAfter: null },
};

/** Starts an application with {@link SeatController} and calls it. */
export async function serveHttp(module: TestingModule, app: INestApplication) {
  closeLater(app);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const get = async (path: string): Promise<Answer> => {
    const response = await fetch(`${url}/${path}`);
    const text = await response.text();
    const body = text.startsWith('{') ? (JSON.parse(text) as Answer) : { text };
    return { status: response.status, retryAfter: response.headers.get('retry-after'), ...body };
  };
  const book = async (place: string) => {
    const response = await fetch(`${url}/${place}/1`, { method: 'POST' });
    return response.status === 202 ? response.text() : response.status;
  };
  const seats = module.get(GuardedSeats);
  return { app, url, seats, get, call: (method: string) => get(`call/${method}`), book };
}
