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
        message: expect.stringMatching(/^Wrong\.run is static, .*experimentalDecorators/),
        where: 'Wrong.run',
      }),
    );
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
    }).toThrow(/Wrong\.run is .* no method/);
  });

  it.each([
    ['ttl', { ttl: 99 }],
    ['wait', { wait: -1 }],
    ['onBusy', { onBusy: 'ignore' }],
    ['onLost', { onLost: 'throw' }],
    ['signal', { signal: new AbortController().signal }],
    ['claim', { claim: 'yes' }],
    ['tll', { tll: '5s' }],
  ])('refuses a wrong option %s, and names the method', (option, options) => {
    const decorate = () =>
      fenced('a', options)(Seats.prototype, 'other', { value: async () => {} });
    expect(decorate).toThrow(RedlockConfigError);
    expect(decorate).toThrow(expect.objectContaining({ option, where: 'Seats.other' }));
  });

  it.each(['seat:{}', 'seat:{id}', 'seat:{0', 'seat:0}', '{0..a}', '{01}'])(
    'refuses the template %j',
    (template) => {
      const decorate = () => fenced(template)(Seats.prototype, 'other', { value: async () => {} });
      expect(decorate).toThrow(FencedUsageError);
      expect(decorate).toThrow(expect.objectContaining({ where: 'Seats.other' }));
    },
  );

  it.each([undefined, {}, [], [1], Seats.prototype])('refuses the key %j', (key) => {
    expect(() => fenced(key)).toThrow(FencedUsageError);
  });
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
