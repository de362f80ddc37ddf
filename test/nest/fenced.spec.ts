import 'reflect-metadata';
import { Readable } from 'node:stream';
import { Injectable, NotFoundException, StreamableFile } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Observable, of } from 'rxjs';
import {
  Fenced,
  isRedlockError,
  LockBusyError,
  LockService,
  RedlockClosedError,
  StaleTokenError,
  type RedlockErrorCode,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, silentLogger, startModule } from './support/applications.ts';

type Work = () => unknown;

@Injectable()
class Seats {
  ran = 0;

  constructor(readonly locks: LockService) {}

  @Fenced('seat:{0}', { wait: 0 })
  async book(_id: unknown, work: Work = () => 'booked'): Promise<unknown> {
    this.ran += 1;
    return work();
  }

  @Fenced('seat:{0}', { onBusy: 'skip' })
  async orSkip(_id: string, work: Work = () => 'booked'): Promise<unknown> {
    this.ran += 1;
    return work();
  }

  @Fenced('seat:{0}', { extend: false, onLost: 'ignore' })
  async ignoringLoss(_id: string, work: Work): Promise<unknown> {
    this.ran += 1;
    return work();
  }

  @Fenced('seat:{0}', { claim: true })
  async claimed(_id: string): Promise<void> {
    this.ran += 1;
  }

  @Fenced('seat:{0}', { wait: '1h' })
  async patiently(_id: string): Promise<void> {
    this.ran += 1;
  }

  @Fenced('order:{0}', { onBusy: 'skip' })
  async order(id: string): Promise<unknown> {
    return this.book(id);
  }
}

/** Rejects from a callback, as sockets and timers do: an error without the frames of any caller. */
const fromCallback = (error: () => Error) => () =>
  new Promise<never>((_resolve, reject) => setTimeout(() => reject(error()), 1));
const stale = () => new StaleTokenError('seat:1', '7', '9');

async function start(options: Partial<RedlockModuleOptions> = {}, providers: any[] = []) {
  const nodes = createMemoryNodes(3);
  const fence = { claim: fromCallback(stale) };
  const module = await startModule(
    { providers: [Seats, ...providers] },
    { nodes, ttl: '1h', nodeTimeout: 50, wait: '1h', shutdownTimeout: 0, fence, ...options },
  );
  const seats = module.get(Seats);
  /** Takes the lock for another holder, who gives it back when this one knows. */
  const lose = async () => {
    const lock = seats.locks.current()!;
    await using _other = await occupy(nodes, 'seat:1', { takeOver: true });
    await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    return 'finished';
  };
  return { module, nodes, seats, locks: seats.locks, lose };
}
type Started = Awaited<ReturnType<typeof start>>;

const own = new NotFoundException('no such seat');
const busyElsewhere = new LockBusyError(['seat:1'], 0, undefined);
const frozen = Object.freeze(new RedlockClosedError(['a']));
const foreign = Object.assign(new Error('own'), { code: 'LOCK_BUSY' });
const rejecting = (error: unknown) => () => Promise.reject(error);

/** End of a call: whether the method ran, and its result or its very error. */
const RESULTS: Record<string, readonly [ran: number, unknown, (on: Started) => Promise<unknown>]> =
  {
    'its result': [1, 'booked', ({ seats }) => seats.book('1')],
    'undefined where it returns that': [1, undefined, ({ seats }) => seats.book('1', () => void 0)],
    'its own error': [1, own, ({ seats }) => seats.book('1', rejecting(own))],
    'its own error, which is frozen': [
      1,
      frozen,
      ({ seats }) => seats.book('1', rejecting(frozen)),
    ],
    'its own error, which has a code': [
      1,
      foreign,
      ({ seats }) => seats.book('1', rejecting(foreign)),
    ],
    'its own error after a loss': [
      1,
      own,
      ({ seats, lose }) => seats.book('1', () => lose().then(rejecting(own))),
    ],
    'undefined with skip where another holder has it': [
      0,
      undefined,
      async ({ seats, nodes }) => {
        await using _other = await occupy(nodes, 'seat:1');
        return await seats.orSkip('1');
      },
    ],
    'its result with skip where the lock is free': [1, 'booked', ({ seats }) => seats.orSkip('1')],
    'its own busy error with skip': [
      1,
      busyElsewhere,
      ({ seats }) => seats.orSkip('1', rejecting(busyElsewhere)),
    ],
    "its result after a loss with onLost: 'ignore'": [
      1,
      'finished',
      ({ seats, lose }) => seats.ignoringLoss('1', lose),
    ],
  };

/** Errors of this package, by their code and the method that they name. */
const ERRORS: Record<
  string,
  readonly [RedlockErrorCode, method: string, ran: number, (on: Started) => Promise<unknown>]
> = {
  'another holder': [
    'LOCK_BUSY',
    'book',
    0,
    async ({ seats, locks }) => {
      await locks.acquire('seat:1');
      await seats.book('1');
    },
  ],
  'a busy lock inside of a method with skip, half of which is done': [
    'LOCK_BUSY',
    'book',
    0,
    async ({ seats, locks }) => {
      await locks.acquire('seat:1');
      await seats.order('1');
    },
  ],
  'an outage, also with skip: no one else is known to do the work': [
    'QUORUM_UNAVAILABLE',
    'orSkip',
    0,
    async ({ seats, nodes }) => {
      for (const node of nodes.slice(1)) node.server.freeze();
      await seats.orSkip('1');
    },
  ],
  'a loss': ['LOCK_LOST', 'book', 1, ({ seats, lose }) => seats.book('1', lose)],
  'a shutdown while the call waits': [
    'REDLOCK_CLOSED',
    'patiently',
    0,
    async ({ seats, locks, module }) => {
      await locks.acquire('seat:1');
      setTimeout(() => void module.close(), 10);
      // A second timer behind it makes its promises run between the two.
      setTimeout(() => undefined, 10);
      await seats.patiently('1');
    },
  ],
  'a token that is refused': ['STALE_TOKEN', 'claimed', 0, ({ seats }) => seats.claimed('1')],
  'an error of this package that the method itself throws': [
    'STALE_TOKEN',
    'book',
    1,
    ({ seats }) => seats.book('1', fromCallback(stale)),
  ],
  'an instance made with new': [
    'FENCED_USAGE',
    'book',
    0,
    ({ locks }) => new Seats(locks).book('1'),
  ],
  'a method that was taken off its instance': [
    'FENCED_USAGE',
    'book',
    0,
    async ({ seats }) => Reflect.apply(Reflect.get(seats, 'book'), undefined, ['1']),
  ],
  ...Object.fromEntries(
    [undefined, null, '', {}, Number.NaN].map((key) => [
      `a key whose argument is ${JSON.stringify(key)} (${typeof key})`,
      ['FENCED_USAGE', 'book', 0, ({ seats }: Started) => seats.book(key)] as const,
    ]),
  ),
};

describe('a method under @Fenced', () => {
  afterEach(closeAll);

  it.each(Object.entries(RESULTS))('ends with %s', async (_name, [ran, expected, call]) => {
    const started = await start();
    const { stack } = foreign;
    const outcome = await call(started).catch((error: unknown) => error);
    expect(outcome).toBe(expected);
    expect(started.seats.ran).toBe(ran);
    expect([foreign.message, foreign.stack]).toEqual(['own', stack]);
    expect(await started.locks.tryAcquire('seat:1')).not.toBeNull();
  });

  it.each(Object.entries(ERRORS))(
    'rejects for %s with an error that names it, and its caller once',
    async (_name, [code, method, ran, call]) => {
      const started = await start();
      const callOfTheTest = async () => {
        await call(started);
      };
      const error: unknown = await callOfTheTest().catch((reason: unknown) => reason);
      if (!isRedlockError(error)) throw error;
      const where = `Seats.${method}`;
      expect(error).toMatchObject({ code, where, message: expect.stringMatching(`^${where}`) });
      expect(error.stack).toContain(error.message);
      expect(error.stack!.split('callOfTheTest')).toHaveLength(2);
      const result = code === 'LOCK_LOST' ? 'finished' : undefined;
      expect([started.seats.ran, Reflect.get(error, 'result')]).toEqual([ran, result]);
    },
  );

  it.each(['key', 'signal', 'transaction', 'token'])(
    'has no reason to skip in the error of another call, which the user passes on: by the %s',
    async (by) => {
      const other = new LockBusyError(['other'], 5, undefined);
      const pass = (name: string) => {
        if (by === name) throw other;
      };
      class Skipping {
        @Fenced((id: string) => (pass('key'), `seat:${id}`), {
          onBusy: 'skip',
          signal: () => (pass('signal'), undefined),
        })
        async book(_id: string): Promise<string | undefined> {
          return 'booked';
        }
      }
      const issue = async () => (pass('token'), 1);
      const isInTransaction = () => (pass('transaction'), false);
      const options = { tokens: { issue }, isInTransaction };
      const { module } = await start(options, [Skipping]);
      await expect(module.get(Skipping).book('12A')).rejects.toBe(other);
    },
  );

  it('does not boot without RedlockModule, and does not run from the constructor', async () => {
    const boot = Test.createTestingModule({
      providers: [{ provide: LockService, useValue: {} }, Seats],
    })
      .setLogger(silentLogger)
      .compile();
    await expect(boot).rejects.toThrow(/Seats.*import RedlockModule\.forRoot/s);
    @Injectable()
    class Hasty extends Seats {
      readonly early = this.book('1').catch((error: unknown) => error);
      constructor(locks: LockService) {
        super(locks);
      }
    }
    const hasty = (await start({}, [Hasty])).module.get(Hasty);
    await expect(hasty.early).resolves.toMatchObject({ code: 'FENCED_USAGE' });
    expect(hasty.ran).toBe(0);
  });
});

/** Applied as untyped JavaScript would, where no compiler objects. */
const fenced = Fenced as unknown as (key: unknown, options?: unknown) => MethodDecorator;

function thrown(error: unknown): never {
  throw error;
}

describe('a key function', () => {
  afterEach(closeAll);
  const answer = new NotFoundException('no such seat');

  async function callWith(key: Work): Promise<unknown> {
    let ran = 0;
    class Keyed {
      @fenced(key)
      async run(): Promise<void> {
        ran += 1;
      }
    }
    const { module } = await start({}, [Keyed]);
    const error = await module
      .get(Keyed)
      .run()
      .catch((refused: unknown) => refused);
    expect(ran).toBe(0);
    return error;
  }

  // Jest fails a test in which a promise rejects without a handler.
  it.each<[string, Work]>([
    ['undefined', () => undefined],
    ['a number', () => 42],
    ['a promise', async () => 'a'],
    ['an empty string', () => ''],
    ['an empty array', () => []],
    ['an array with an empty string', () => ['a', '']],
    ['an array with an object', () => ['a', {}]],
    ['an array with a hole', () => Object.assign([], { 1: 'a' })],
  ])('is refused when it returns %s', async (_made, key) => {
    const message = expect.stringMatching(/^Keyed\.run: the key function returned/);
    expect(await callWith(key)).toMatchObject({ code: 'FENCED_USAGE', message });
  });

  it('is named with the method when it throws, unless that is an answer', async () => {
    expect(await callWith(() => thrown(answer))).toBe(answer);
    const cause = new TypeError('of the key');
    expect(await callWith(() => thrown(cause))).toMatchObject({
      code: 'FENCED_USAGE',
      where: 'Keyed.run',
      message: expect.stringContaining('Keyed.run: the key function threw TypeError: of the key'),
      cause,
    });
  });
});

const numbers = async function* () {
  yield 1;
};
const steps = function* () {
  yield 1;
};
const LAZY: readonly (readonly [what: string, found: string, Work])[] = [
  ['an Observable', 'an Observable', () => of(1)],
  ['an Observable that nobody subscribes to', 'an Observable', () => new Observable(thrown)],
  ['an async iterable', 'an async iterable', numbers],
  ['a generator', 'a generator', steps],
  ['a stream of Node', 'an async iterable', () => Readable.from('a')],
  ['a StreamableFile', 'a StreamableFile', () => new StreamableFile(Readable.from('a'))],
];
const CALLS: Record<string, (on: Started, result: Work) => Promise<unknown>> = {
  'a method': ({ seats }, result) => seats.book('1', result),
  withLock: ({ locks }, result) => locks.withLock('seat:1', result),
  'withLock in withLock': ({ locks }, result) =>
    locks.withLock('seat:1', () => locks.withLock('seat:1', result, { nested: 'join' })),
};

describe.each(Object.entries(CALLS))('work of %s', (_by, call) => {
  afterEach(closeAll);

  it.each(LAZY)(
    'may not return %s: it is refused, and the lock released',
    async (_, found, make) => {
      const started = await start();
      await expect(call(started, make)).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        keys: ['seat:1'],
        message: expect.stringMatching(`returned ${found}: .*lastValueFrom.*has been released`),
      });
      await using free = await started.locks.tryAcquire('seat:1');
      expect(free).not.toBeNull();
    },
  );
});
