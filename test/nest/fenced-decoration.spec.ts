import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencedUsageError, RedlockConfigError } from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';

class Seats {}

/** Applied as untyped JavaScript would, where no compiler objects. */
const fenced = Fenced as unknown as (key: unknown, options?: unknown) => MethodDecorator;

describe('@Fenced at decoration', () => {
  it('refuses a static method', () => {
    expect(() => {
      class Wrong {
        @fenced('a')
        static async run(): Promise<void> {}
      }
      return Wrong;
    }).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(/^Wrong\.run is static/),
        where: 'Wrong.run',
      }),
    );
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
    ['ttl', { ttl: 99 }],
    ['ttl', { ttl: '10 s' }],
    ['wait', { wait: -1 }],
    ['onBusy', { onBusy: 'ignore' }],
    ['onLost', { onLost: 'throw' }],
    ['release', { release: 'later' }],
    ['tll', { tll: '5s' }],
  ])('refuses a wrong option %s: %j', (option, options) => {
    const decorate = () =>
      fenced('a', options)(Seats.prototype, 'other', { value: async () => {} });
    expect(decorate).toThrow(RedlockConfigError);
    expect(decorate).toThrow(expect.objectContaining({ option, where: 'Seats.other' }));
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
    '{01}',
    'seat:{00.id}',
  ])('refuses the template %j', (template) => {
    const decorate = () => fenced(template)(Seats.prototype, 'other', { value: async () => {} });
    expect(decorate).toThrow(FencedUsageError);
    expect(decorate).toThrow(expect.objectContaining({ where: 'Seats.other' }));
  });

  it.each([
    ['#nightly', /^Seats\.other: Lock keys that start with '#'.* such as 'seat:nightly'/],
    ['#{0}', /reserved: "#…"/],
    ['{0}#marker', /reserved/],
    ['a#floor:{0}', /reserved/],
    ['x'.repeat(1_025), /^Seats\.other: A lock key has at most 1024 characters, not 1025/],
    [`${'x'.repeat(1_024)}{0.id}`, /at most 1024 characters/],
    ['seat:\ud83d', /half of a surrogate pair/],
    [['seat', '#nightly'], /reserved: "#nightly"/],
    [Array.from({ length: 1_001 }, (_, index) => `seat:${index}`), /at most 1000 keys/],
  ])('refuses %j, which no call could lock', (key, message) => {
    const decorate = () => fenced(key)(Seats.prototype, 'other', { value: async () => {} });
    expect(decorate).toThrow(FencedUsageError);
    expect(decorate).toThrow(expect.objectContaining({ where: 'Seats.other' }));
    expect(decorate).toThrow(message);
  });

  it.each(['x'.repeat(1_024), `${'x'.repeat(1_000)}{0.customer.address.street}`, 'undefined{0}'])(
    'takes %j, which some call can lock',
    (template) => {
      class Right {}
      const decorate = () => fenced(template)(Right.prototype, 'other', { value: async () => {} });
      expect(decorate).not.toThrow();
    },
  );
});

describe('the template of @Fenced', () => {
  afterEach(closeAll);

  it('takes rest parameters, defaults, properties that may be there, and methods of other decorators', async () => {
    const wrapped: MethodDecorator = (_target, _name, descriptor: PropertyDescriptor) => {
      const original = descriptor.value as (...args: unknown[]) => unknown;
      descriptor.value = function (this: unknown, ...args: unknown[]) {
        return original.apply(this, args);
      };
    };
    @Injectable()
    class Right {
      @Fenced('a:{2}')
      async rest(_id: string, ..._more: string[]) {
        return 'rest';
      }

      @Fenced('a:{1}')
      async defaults(_id: string, _name = 'ana') {
        return 'defaults';
      }

      @Fenced('a:{0.id}:{1.length}')
      async properties(_seat: { id: string } | string, _text: string) {
        return 'properties';
      }

      @Fenced('a:{1}')
      @wrapped
      async decorated(_id: string, _name: string) {
        return 'decorated';
      }
    }
    const right = (await startModule({ providers: [Right] })).get(Right);
    expect(await right.rest('1', '2', '3')).toBe('rest');
    expect(await right.defaults('1', 'bob')).toBe('defaults');
    expect(await right.properties({ id: '1' }, 'text')).toBe('properties');
    expect(await right.decorated('1', 'bob')).toBe('decorated');
  });
});
