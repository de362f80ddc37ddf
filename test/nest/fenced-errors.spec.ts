import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Fenced,
  isRedlockError,
  LockBusyError,
  LockService,
  RedlockClosedError,
  StaleTokenError,
  type RedlockError,
  type RedlockErrorCode,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, startModule } from './support/applications.ts';

@Injectable()
class SeatService {
  constructor(readonly locks: LockService) {}

  @Fenced('seat:{0}', { wait: 20 })
  async book(_seatId: string, work: () => Promise<unknown> = async () => 'booked') {
    return work();
  }

  @Fenced('seat:{0}', { claim: true })
  async bookClaimed(_seatId: string): Promise<void> {}

  @Fenced('seat:{0}', { wait: '1h' })
  async bookPatiently(_seatId: string): Promise<void> {}

  @Fenced('order:{0}')
  async order(seatId: string): Promise<unknown> {
    return this.book(seatId);
  }
}

/** Rejects from a callback, as sockets and timers do: an error without the frames of any caller. */
const fromCallback = (error: () => Error) => () =>
  new Promise<never>((_resolve, reject) => setTimeout(() => reject(error()), 1));

const stale = () => new StaleTokenError('seat:12A', '7', '9');

describe('an error of a lock under @Fenced', () => {
  afterEach(closeAll);

  async function start(options: Partial<RedlockModuleOptions> = {}) {
    const nodes = createMemoryNodes(3);
    const module = await startModule(
      { providers: [SeatService] },
      { nodes, ttl: 500, shutdownTimeout: 0, fence: { claim: fromCallback(stale) }, ...options },
    );
    const seats = module.get(SeatService);
    return { module, nodes, seats, locks: seats.locks };
  }
  type Started = Awaited<ReturnType<typeof start>>;

  async function callOfTheTest(method: () => Promise<unknown>): Promise<RedlockError> {
    try {
      await method();
    } catch (error) {
      if (isRedlockError(error)) return error;
      throw error;
    }
    throw new Error('nothing was thrown');
  }

  const cases: Record<
    string,
    readonly [RedlockErrorCode, method: string, (started: Started) => Promise<unknown>]
  > = {
    'a lock that another holder has': [
      'LOCK_BUSY',
      'book',
      async ({ seats, locks }) => {
        await locks.acquire('seat:12A');
        await seats.book('12A');
      },
    ],
    'an outage': [
      'QUORUM_UNAVAILABLE',
      'book',
      async ({ seats, nodes }) => {
        for (const node of nodes.slice(1)) node.server.freeze();
        await seats.book('12A');
      },
    ],
    'a loss': [
      'LOCK_LOST',
      'book',
      async ({ seats, nodes }) => {
        const work = async () => {
          const { signal } = seats.locks.current()!;
          for (const node of nodes) node.server.kill();
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        };
        await seats.book('12A', work);
      },
    ],
    'a shutdown while the call waits': [
      'REDLOCK_CLOSED',
      'bookPatiently',
      async ({ seats, locks, module }) => {
        await locks.acquire('seat:12A');
        setTimeout(() => void module.close(), 10);
        // With another timer behind it, its promises run between the two.
        setTimeout(() => undefined, 10);
        await seats.bookPatiently('12A');
      },
    ],
    'a token that is refused': [
      'STALE_TOKEN',
      'bookClaimed',
      ({ seats }) => seats.bookClaimed('12A'),
    ],
    'a key that is no key': ['FENCED_USAGE', 'book', ({ seats }) => seats.book('')],
    'an error of this package that the method itself throws': [
      'STALE_TOKEN',
      'book',
      ({ seats }) => seats.book('12A', fromCallback(stale)),
    ],
    'an instance that Nest did not build': [
      'FENCED_USAGE',
      'book',
      ({ locks }) => new SeatService(locks).book('12A'),
    ],
  };

  it.each(Object.entries(cases))(
    'names the method, and its stack the caller: %s',
    async (_name, [code, method, provoke]) => {
      const started = await start();
      const error = await callOfTheTest(() => provoke(started));
      const { where, message, stack } = error;
      expect({ code: error.code, where }).toEqual({ code, where: `SeatService.${method}` });
      expect(message.split(`SeatService.${method}`)).toHaveLength(2);
      expect(message.startsWith(`SeatService.${method}`)).toBe(true);
      expect(stack).toContain(message);
      expect(stack).toContain('callOfTheTest');
      const frames = stack!.split('\n').filter((line) => line.startsWith('    at '));
      expect(new Set(frames).size).toBe(frames.length);
    },
  );

  it('names the innermost method of calls in each other', async () => {
    const { seats, locks } = await start();
    await locks.acquire('seat:12A');
    const error = await callOfTheTest(() => seats.order('12A'));
    expect(error.where).toBe('SeatService.book');
    expect(error.message).not.toContain('SeatService.order');
  });

  it('stays the same object, also when it is frozen', async () => {
    const { seats } = await start();
    const own = Object.freeze(new RedlockClosedError(['a']));
    await expect(seats.book('12A', () => Promise.reject(own))).rejects.toBe(own);
  });

  it.each(['key', 'signal', 'transaction', 'token'])(
    'of another call, which the user passes on, is no reason to skip: by the %s',
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
      const options = { nodes: createMemoryNodes(3), tokens: { issue }, isInTransaction };
      const module = await startModule({ providers: [Skipping] }, options);
      await expect(module.get(Skipping).book('12A')).rejects.toBe(other);
    },
  );

  it('is of this package: the errors of others are passed on untouched', async () => {
    const { seats } = await start();
    const own = Object.assign(new Error('own'), { code: 'LOCK_BUSY' });
    const { stack } = own;
    await expect(seats.book('12A', () => Promise.reject(own))).rejects.toBe(own);
    expect(own).toEqual(Object.assign(new Error('own'), { code: 'LOCK_BUSY' }));
    expect(own.stack).toBe(stack);
  });
});
