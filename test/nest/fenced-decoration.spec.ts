import 'reflect-metadata';
import { Controller, Injectable, UseGuards } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencingToken, LockSignal, type RedlockModuleOptions } from '../../lib/index.ts';
import { closeAll, closeLater, redlockInMemory, startModule } from './support/applications.ts';
import { Recorder } from './support/recorder.ts';

/** Applied as untyped JavaScript would, where no compiler objects. */
const fenced = Fenced as unknown as (key: unknown, options?: unknown) => MethodDecorator;

const wrapped: MethodDecorator = (_target, _name, descriptor: PropertyDescriptor) => {
  const original = descriptor.value as (...args: unknown[]) => unknown;
  descriptor.value = function (this: unknown, ...args: unknown[]) {
    return original.apply(this, args);
  };
};

describe('@Fenced at decoration', () => {
  it.each<[string, () => unknown, RegExp]>([
    [
      'a static method',
      () => {
        class Wrong {
          @fenced('a')
          static async run(): Promise<void> {}
        }
        return Wrong;
      },
      /^Wrong\.run is static/,
    ],
    ...['get', 'set'].map((kind): [string, () => unknown, RegExp] => [
      `an accessor (${kind})`,
      () => fenced('a')({}, 'run', { [kind]: () => 1 }),
      /^Object\.run is a getter or a setter/,
    ]),
    [
      'a property with an arrow function',
      () => {
        class Wrong {
          @(fenced('a') as PropertyDecorator)
          run = async (): Promise<void> => {};
        }
        return Wrong;
      },
      /^Wrong\.run is a property, .*async run\(\) \{/,
    ],
    ...Object.entries({ run: false, '#run': true }).map(
      ([name, isPrivate]): [string, () => unknown, RegExp] => [
        `what a standard decorator is given for ${name}`,
        () => (fenced('a') as Function)(() => 1, { kind: 'method', name, private: isPrivate }),
        isPrivate ? /^#run is private by its #/ : /^run is .*"experimentalDecorators": true/,
      ],
    ),
    [
      'a second @Fenced, also with another decorator between',
      () => {
        class Wrong {
          @Fenced('a')
          @wrapped
          @Fenced('b')
          async run(): Promise<void> {}
        }
        return Wrong;
      },
      /^Wrong\.run is under @Fenced twice/,
    ],
    ...`seat:{} seat:{id} seat:{0 seat:0} {0..a} {01} seat:$0 $1:a seat:\${0} seat:\${0.id}`
      .split(' ')
      .map((template): [string, () => unknown, RegExp] => [
        `the template ${template}`,
        () => fenced(template)({}, 'run', { value: async () => {} }),
        /^Object\.run: .* is not a key template/,
      ]),
    ...[undefined, {}, [], [1], fenced.prototype].map((key): [string, () => unknown, RegExp] => [
      `the key ${JSON.stringify(key)}`,
      () => fenced(key),
      /^@Fenced needs a key/,
    ]),
  ])('refuses %s', (_, decorate, message) => {
    expect(decorate).toThrow(message);
    expect(decorate).toThrow(expect.objectContaining({ code: 'FENCED_USAGE' }));
  });

  it.each([
    ['ttl', { ttl: 99 }],
    ['wait', { wait: -1 }],
    ['onBusy', { onBusy: 'ignore' }],
    ['onLost', { onLost: 'reject' }],
    ['signal', { signal: new AbortController().signal }],
    ['claim', { claim: 'yes' }],
    ['tll', { tll: '5s' }],
  ])('refuses a wrong option %s, and names the method', (option, options) => {
    const decorate = () => fenced('a', options)({}, 'run', { value: async () => {} });
    const refusal = { code: 'REDLOCK_CONFIG', option, where: 'Object.run' };
    expect(decorate).toThrow(expect.objectContaining(refusal));
  });
});

class Seats {
  @Fenced('seat:{0}')
  async book(_seatId: string): Promise<string> {
    return 'booked';
  }
}

/** A class whose method has one parameter with a default, and one that the lock fills in. */
function fencedWith(key: unknown) {
  return () => {
    class Keyed {
      @fenced(key)
      async run(_id = '1', @FencingToken() _token?: unknown): Promise<void> {}
    }
    return Keyed;
  };
}

describe('the start of an application with @Fenced', () => {
  afterEach(closeAll);

  async function start(
    classes: { providers?: any[]; controllers?: any[] },
    options: Partial<RedlockModuleOptions> = {},
  ): Promise<string> {
    const recorder = new Recorder();
    const testing = Test.createTestingModule({ imports: [redlockInMemory(options)], ...classes });
    closeLater(await testing.setLogger(recorder).compile());
    return recorder.warnings;
  }

  it('warns of an override that is not under @Fenced, and names it and the method it overrides', async () => {
    class Unlocked extends Seats {
      override async book(seatId: string): Promise<string> {
        return `unlocked ${seatId}`;
      }
    }
    class Locked extends Seats {
      @Fenced('seat:{0}')
      override async book(seatId: string): Promise<string> {
        return super.book(seatId);
      }
    }
    class Inheriting extends Seats {}
    const warnings = await start({ providers: [Unlocked, Locked, Inheriting] });
    expect(warnings).toMatch(/^warn Unlocked\.book overrides Seats\.book, .*without a lock.*$/);
  });

  it.each<[string, (...decorators: MethodDecorator[]) => object, RegExp | string]>([
    ['more', fencedWith('seat:{2}'), /^warn Keyed\.run: callers pass no \{2\}.*'seat:\{2\}'/],
    ['a property of one more', fencedWith('{0}:{3.id}'), /pass no \{3\}/],
    ['the one that the lock fills in', fencedWith(['a', '{1}']), /pass no \{1\}/],
    ['those that it has, also one with a default', fencedWith('{0.id}'), ''],
    ['none', fencedWith('seat'), ''],
    ['what a function makes', fencedWith((id: string) => id), ''],
  ])('warns of a key that takes more arguments than its method: %s', async (_, make, warning) => {
    const warnings = await start({ providers: [make()] });
    expect(warnings).toMatch(warning === '' ? /^$/ : warning);
  });

  it('is refused for a parameter of a method without @Fenced, also in a guard or an override', async () => {
    class Guard {
      async canActivate(@FencingToken() _token?: unknown): Promise<boolean> {
        return true;
      }
    }
    @Controller()
    @UseGuards(Guard)
    class Guarded {}
    const message = /^Guard\.canActivate: @FencingToken\(\) without @Fenced/;
    await expect(start({ controllers: [Guarded] })).rejects.toThrow(message);
    class Overriding extends Seats {
      override async book(seatId: string, @LockSignal() _signal?: unknown): Promise<string> {
        return seatId;
      }
    }
    await expect(start({ providers: [Overriding] })).rejects.toThrow(
      /^Overriding\.book: @LockSignal\(\) without @Fenced/,
    );
  });

  it('is refused where the options of a method do not fit those of the module', async () => {
    class Slow {
      @Fenced('report', { ttl: '30s' })
      async run(): Promise<void> {}
    }
    const boot = start({ providers: [Slow] }, { ttl: '5s', maxTtl: '10s' });
    const refusal = { code: 'REDLOCK_CONFIG', option: 'ttl', where: 'Slow.run' };
    await expect(boot).rejects.toMatchObject(refusal);
    await expect(start({ providers: [Slow] }, { maxTtl: '30s' })).resolves.toBe('');
  });
});

describe('a method under @Fenced', () => {
  afterEach(closeAll);

  it('may have rest parameters, defaults, properties that may be there, and other decorators', async () => {
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

  it('says that it lost its `this`, which its caller has left behind', async () => {
    const seats = (await startModule({ providers: [Seats] })).get(Seats);
    const { book } = seats as { book: (this: unknown, seatId: string) => Promise<string> };
    const emitter = { book };
    for (const call of [() => ['1'].map(book)[0], () => emitter.book('1'), () => book.call(5, '1')])
      await expect(call()).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        where: 'Seats.book',
        message: expect.stringMatching(/without its `this`.*service\.book\(.* was not run\.$/),
      });
  });

  it.each([
    ['made by hand', () => new Seats()],
    ['without its constructor', () => Object.create(Seats.prototype)],
  ])('says that Nest did not build an instance %s', async (_, make) => {
    await expect((make() as Seats).book('1')).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      message: expect.stringMatching(/that Nest did not build.* was not run\.$/),
    });
  });
});
