import 'reflect-metadata';
import { Readable } from 'node:stream';
import { Injectable, NotFoundException, StreamableFile } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Observable, of } from 'rxjs';
import { Fenced, FencedUsageError, LockService } from '../../lib/index.ts';
import { closeAll, silentLogger, startModule } from './support/applications.ts';

let bodyRuns = 0;

@Injectable()
class Seats {
  @Fenced('seat:{0}')
  async book(_seatId: string): Promise<string> {
    bodyRuns += 1;
    return 'booked';
  }
}

function thrown(error: unknown): never {
  throw error;
}

/** Applied as untyped JavaScript would, where no compiler objects. */
const fenced = Fenced as unknown as (key: unknown, options?: unknown) => MethodDecorator;

describe('@Fenced fails closed', () => {
  afterEach(closeAll);
  afterEach(() => {
    bodyRuns = 0;
  });

  it('refuses to boot without RedlockModule, and says which module to import', async () => {
    const boot = Test.createTestingModule({ providers: [Seats] })
      .setLogger(silentLogger)
      .compile();
    await expect(boot).rejects.toThrow(/Seats.*import RedlockModule\.forRoot/s);
  });

  it('refuses a call on an instance made with new', async () => {
    await expect(new Seats().book('1')).rejects.toThrow(FencedUsageError);
    await expect(new Seats().book('1')).rejects.toThrow(/Seats\.book .*provider.*not run/);
    expect(bodyRuns).toBe(0);
  });

  it('refuses a call on an instance made by useFactory', async () => {
    const module = await startModule({
      providers: [{ provide: Seats, useFactory: () => new Seats() }],
    });
    await expect(module.get(Seats).book('1')).rejects.toThrow(FencedUsageError);
    expect(bodyRuns).toBe(0);
  });

  it('refuses a call from the constructor', async () => {
    @Injectable()
    class Hasty extends Seats {
      readonly early = this.book('1').catch((error: unknown) => error);
    }
    const module = await startModule({ providers: [Hasty] });
    await expect(module.get(Hasty).early).resolves.toBeInstanceOf(FencedUsageError);
    expect(bodyRuns).toBe(0);
    await expect(module.get(Hasty).book('1')).resolves.toBe('booked');
  });

  it('refuses a method that was taken off its instance', async () => {
    const module = await startModule({ providers: [Seats] });
    const { book } = module.get(Seats) as { book: (seatId: string) => Promise<string> };
    await expect(book('1')).rejects.toThrow(FencedUsageError);
    expect(bodyRuns).toBe(0);
  });

  it.each([
    ['undefined', undefined],
    ['empty', ''],
    ['null', null],
    ['an object', { toString: () => 'x' }],
    ['NaN', Number.NaN],
  ])('refuses a key whose argument is %s', async (_name, argument) => {
    const module = await startModule({ providers: [Seats] });
    await expect(module.get(Seats).book(argument as string)).rejects.toThrow(
      /Seats\.book: \{0\} of the key/,
    );
    expect(bodyRuns).toBe(0);
  });

  it.each([
    ['undefined', () => undefined],
    ['a number', () => 42],
    ['a promise', async () => 'a'],
    ['an empty string', () => ''],
    ['an empty array', () => []],
    ['an array with an empty string', () => ['a', '']],
    ['an array with an object', () => ['a', {}]],
    ['an array with a hole', () => Object.assign([], { 1: 'a' })],
  ])('refuses a key function that returns %s', async (_made, key) => {
    @Injectable()
    class Keyed {
      ran = false;
      @fenced(key)
      async run(): Promise<void> {
        this.ran = true;
      }
    }
    const module = await startModule({ providers: [Keyed] });
    await expect(module.get(Keyed).run()).rejects.toThrow(/^Keyed\.run: the key function returned/);
    expect(module.get(Keyed).ran).toBe(false);
  });

  it.each<[string, () => unknown, string]>([
    ['an error', () => (undefined as never as Error).name, 'TypeError: Cannot read properties of'],
    ['a text', () => thrown('no seat'), 'a string'],
  ])('names the method whose key function throws %s', async (_name, key, shown) => {
    @Injectable()
    class Keyed {
      @fenced(key)
      async run(): Promise<void> {
        bodyRuns += 1;
      }
    }
    const module = await startModule({ providers: [Keyed] });
    const call = module.get(Keyed).run();
    await expect(call).rejects.toThrow(`Keyed.run: the key function threw ${shown}`);
    await expect(call).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      where: 'Keyed.run',
      message: expect.stringMatching(/ The method was not run\.$/),
      cause: await Promise.resolve()
        .then(key)
        .catch((error: unknown) => error),
    });
    expect(bodyRuns).toBe(0);
  });

  it('leaves the answer alone that a key function throws', async () => {
    const answer = new NotFoundException('no such seat');
    @Injectable()
    class Keyed {
      @fenced(() => thrown(answer))
      async run(): Promise<void> {}
    }
    const module = await startModule({ providers: [Keyed] });
    await expect(module.get(Keyed).run()).rejects.toBe(answer);
  });

  it('outlives a key function whose promise rejects', async () => {
    @Injectable()
    class Keyed {
      @fenced(() => Promise.reject(new Error('unhandled')))
      async run(): Promise<void> {}
    }
    const module = await startModule({ providers: [Keyed] });
    let unhandled = 0;
    const count = () => void (unhandled += 1);
    process.on('unhandledRejection', count);
    await expect(module.get(Keyed).run()).rejects.toThrow('the key function returned');
    await new Promise((resolve) => setTimeout(resolve, 1));
    process.off('unhandledRejection', count);
    expect(unhandled).toBe(0);
  });

  describe('streams', () => {
    @Injectable()
    class Streams {
      subscriptions = 0;

      @fenced('stream')
      observable(): Observable<number> {
        return new Observable(() => {
          this.subscriptions += 1;
        });
      }

      @fenced('stream')
      async give<Result>(result: () => Result): Promise<Result> {
        return result();
      }
    }

    const numbers = async function* () {
      yield 1;
    };
    const steps = function* () {
      yield 1;
    };
    const results: Record<string, readonly [found: string, result: () => unknown]> = {
      'a promise of an Observable': ['an Observable', () => of(1)],
      'an async iterable': ['an async iterable', numbers],
      'a generator': ['a generator', steps],
      'a stream of Node': ['an async iterable', () => Readable.from('a')],
      'a StreamableFile': ['a StreamableFile', () => new StreamableFile(Readable.from('a'))],
    };
    type Call = (streams: Streams, locks: LockService, result: () => unknown) => Promise<unknown>;
    const calls: Record<string, Call> = {
      'a method': (streams, _locks, result) => streams.give(result),
      withLock: (_streams, locks, result) => locks.withLock('stream', async () => result()),
      'withLock in withLock': (_streams, locks, result) =>
        locks.withLock('stream', () =>
          locks.withLock('stream', () => result(), { nested: 'join' }),
        ),
    };

    const refusal = (found: string) =>
      expect.objectContaining({
        code: 'FENCED_USAGE',
        keys: ['stream'],
        message: expect.stringMatching(`returned ${found}: .*lastValueFrom.*has been released`),
      });

    /** How the call ended in an application of its own, and whether it left its key free. */
    async function outcomeOf(call: (module: TestingModule) => Promise<unknown>) {
      const module = await startModule({ providers: [Streams] });
      const error = await call(module).catch((refused: unknown) => refused);
      const lock = await module.get(LockService).tryAcquire('stream');
      await lock?.release();
      const { subscriptions } = module.get(Streams);
      return { error, subscriptions, isFree: lock !== null };
    }

    it('refuses an Observable, starts nothing and releases the lock', async () => {
      const expected = { error: refusal('an Observable'), subscriptions: 0, isFree: true };
      const method = await outcomeOf(
        (module) => module.get(Streams).observable() as unknown as Promise<unknown>,
      );
      expect(method).toEqual(expected);
      const work = await outcomeOf((module) => {
        const streams = module.get(Streams);
        const lazy = new Observable(() => void (streams.subscriptions += 1));
        return module.get(LockService).withLock('stream', () => lazy);
      });
      expect(work).toEqual(expected);
    });

    it.each(
      Object.entries(results).flatMap(([name, result]) =>
        Object.entries(calls).map(([by, call]) => [name, by, result, call] as const),
      ),
    )('refuses %s of %s, and releases the lock', async (_name, _by, [found, result], call) => {
      const outcome = await outcomeOf((module) =>
        call(module.get(Streams), module.get(LockService), result),
      );
      expect(outcome).toEqual({ error: refusal(found), subscriptions: 0, isFree: true });
    });
  });
});
