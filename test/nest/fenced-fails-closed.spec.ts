import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Observable, of } from 'rxjs';
import { Fenced, FencedUsageError, LockService, RedlockConfigError } from '../../lib/index.ts';
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
    await expect(new Seats().book('1')).rejects.toThrow(/Seats\.book .*provider/);
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
    ['an empty string', () => ''],
    ['no keys at all', () => []],
    ['an empty key among others', () => ['a', '']],
  ])('refuses a key function that returns %s', async (_name, key) => {
    @Injectable()
    class Keyed {
      ran = false;
      @fenced(key)
      async run(): Promise<void> {
        this.ran = true;
      }
    }
    const module = await startModule({ providers: [Keyed] });
    await expect(module.get(Keyed).run()).rejects.toThrow(/Keyed\.run: the key function returned/);
    expect(module.get(Keyed).ran).toBe(false);
  });

  it('rejects with the error of the key function itself', async () => {
    @Injectable()
    class Keyed {
      @Fenced(() => {
        throw new Error('no such seat');
      })
      async run(): Promise<void> {}
    }
    const module = await startModule({ providers: [Keyed] });
    await expect(module.get(Keyed).run()).rejects.toThrow('no such seat');
  });

  describe('at decoration', () => {
    it('refuses a static method', () => {
      expect(() => {
        class Wrong {
          @fenced('a')
          static async run(): Promise<void> {}
        }
        return Wrong;
      }).toThrow(/Wrong\.run is static/);
    });

    it('refuses generator methods, also asynchronous ones', () => {
      expect(() => {
        class Wrong {
          @fenced('a')
          *run(): Generator<number> {
            yield 1;
          }
        }
        return Wrong;
      }).toThrow(/Wrong\.run is a generator/);
      expect(() => {
        class Wrong {
          @fenced('a')
          async *run(): AsyncGenerator<number> {
            yield 1;
          }
        }
        return Wrong;
      }).toThrow(/Wrong\.run is a generator/);
    });

    it('refuses a second @Fenced, also with another decorator between', () => {
      const replace: MethodDecorator = (_target, _key, descriptor: PropertyDescriptor) => {
        const original = descriptor.value as (...args: unknown[]) => unknown;
        descriptor.value = function (this: unknown, ...args: unknown[]) {
          return original.apply(this, args);
        };
      };
      expect(() => {
        class Wrong {
          @Fenced('a')
          @replace
          @Fenced('b')
          async run(): Promise<void> {}
        }
        return Wrong;
      }).toThrow(/Wrong\.run is under @Fenced twice/);
    });

    it('refuses accessors', () => {
      expect(() => {
        class Wrong {
          @(fenced('a') as PropertyDecorator)
          get run(): number {
            return 1;
          }
        }
        return Wrong;
      }).toThrow(/Wrong\.run is not a method/);
    });

    it.each([
      ['ttl', { ttl: 'soon' }],
      ['ttl', { ttl: 0 }],
      ['wait', { wait: -1 }],
      ['onBusy', { onBusy: 'ignore' }],
      ['onLost', { onLost: 'throw' }],
      ['tll', { tll: '5s' }],
    ])('refuses a wrong option %s: %j', (option, options) => {
      const decorate = () =>
        fenced('a', options)(Seats.prototype, 'other', { value: async () => {} });
      expect(decorate).toThrow(RedlockConfigError);
      expect(decorate).toThrow(expect.objectContaining({ option }));
    });

    it.each([
      '',
      'seat:{}',
      'seat:{id}',
      'seat:{0',
      'seat:0}',
      '{0.__proto__}',
      '{0.a.constructor}',
      '{0..a}',
    ])('refuses the template %j', (template) => {
      expect(() => fenced(template)(Seats.prototype, 'other', { value: async () => {} })).toThrow(
        FencedUsageError,
      );
    });
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
      async observableLater(): Promise<Observable<number>> {
        return of(1);
      }

      @fenced('stream')
      iterable(): AsyncIterable<number> {
        return (async function* () {
          yield 1;
        })();
      }
    }

    it.each(['observable', 'observableLater', 'iterable'] as const)(
      'refuses the result of %s, starts nothing and releases the lock',
      async (method) => {
        const module = await startModule({ providers: [Streams] });
        const streams = module.get(Streams);
        await expect(streams[method]()).rejects.toThrow(/lastValueFrom.*@FencedStream/);
        expect(streams.subscriptions).toBe(0);
        const lock = await module.get(LockService).tryAcquire('stream');
        expect(lock).not.toBeNull();
        await lock?.release();
      },
    );
  });
});
