import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  Fenced,
  FencedInterceptor,
  LockService,
  RedlockModule,
  REDLOCK_NODES,
} from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';

@Injectable()
class Seats {
  constructor(readonly locks: LockService) {}

  @Fenced('seat:{0}', { wait: 0 })
  async book(seatId: string): Promise<string> {
    return `booked ${seatId}`;
  }
}

// A port that refuses every connection.
@Module({
  imports: [RedlockModule.forRoot({ nodes: ['redis://127.0.0.1:1'] })],
  providers: [Seats],
})
class AppModule {}

const passing = { intercept: (_context: unknown, next: { handle(): unknown }) => next.handle() };
const nodes = createMemoryNodes(3);
const inMemory = () =>
  Test.createTestingModule({ imports: [AppModule] })
    .overrideProvider(REDLOCK_NODES)
    .useValue(nodes);

async function start(building: TestingModuleBuilder): Promise<Seats> {
  const module = closeLater(await building.setLogger(silentLogger).compile());
  await module.init();
  return module.get(Seats);
}

/** Both lines that a test can write instead. */
const TWO_LINES =
  /overrideProvider\(REDLOCK_NODES\)\.useValue\(createMemoryNodes\(3\)\).*overrideProvider\(FencedInterceptor\)\.useValue\(\{ run: .*\}\)/;

afterEach(closeAll);

describe('a test that replaces', () => {
  it.each<[string, (building: TestingModuleBuilder) => TestingModuleBuilder]>([
    ['a value', (building) => building.overrideInterceptor(FencedInterceptor).useValue(passing)],
    [
      'a class',
      (building) => building.overrideInterceptor(FencedInterceptor).useClass(class Passing {}),
    ],
    [
      'a factory',
      (building) =>
        building.overrideInterceptor(FencedInterceptor).useFactory({ factory: () => passing }),
    ],
  ])('the interceptor by %s is told at the start what does turn locks off', async (_, replace) => {
    const boot = start(replace(inMemory()));
    await expect(boot).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    await expect(boot).rejects.toThrow(TWO_LINES);
  });

  it.each([passing, {}, 5, () => undefined, { run: jest.fn() }])(
    'the provider of the interceptor by %p is told so by each call, which runs nothing',
    async (double) => {
      const seats = await start(inMemory().overrideProvider(FencedInterceptor).useValue(double));
      const call = seats.book('1');
      await expect(call).rejects.toMatchObject({ code: 'FENCED_USAGE', where: 'Seats.book' });
      await expect(call).rejects.toThrow(TWO_LINES);
    },
  );

  it('locks by the line that turns them off runs methods without', async () => {
    const off = {
      run: async (_definition: unknown, _args: unknown, method: () => unknown) => method(),
    };
    const seats = await start(inMemory().overrideProvider(FencedInterceptor).useValue(off));
    await using _other = await occupy(nodes, 'seat:1');
    await expect(seats.book('1')).resolves.toBe('booked 1');
  });

  it.each([{}, { withLock: jest.fn() }])(
    'LockService by %p replaces what classes inject, and no method under @Fenced',
    async (double) => {
      const seats = await start(inMemory().overrideProvider(LockService).useValue(double));
      expect(seats.locks).toBe(double);
      await expect(seats.book('1')).resolves.toBe('booked 1');
      await using _other = await occupy(nodes, 'seat:1');
      await expect(seats.book('1')).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    },
  );

  it('everything that the module would provide is told so by each call', async () => {
    const module = await Test.createTestingModule({ providers: [Seats] })
      .useMocker(() => ({ run: () => undefined }))
      .compile();
    await expect(module.get(Seats).book('1')).rejects.toThrow(TWO_LINES);
  });
});

describe('an instance that Nest built runs its methods under their locks', () => {
  const forwarding: ProxyHandler<Seats> = {
    get(target, name, receiver) {
      const value: unknown = Reflect.get(target, name, receiver);
      if (typeof value !== 'function') return value;
      // What tracing tools do: the method sees the Proxy as `this`.
      return function (this: unknown, ...args: unknown[]) {
        return Reflect.apply(value, this, args) as unknown;
      };
    },
  };

  it.each<[string, (seats: Seats) => Seats]>([
    ['a Proxy that forwards nothing', (seats) => new Proxy(seats, {})],
    ['a Proxy that wraps methods', (seats) => new Proxy(seats, forwarding)],
    ['a Proxy of a Proxy', (seats) => new Proxy(new Proxy(seats, forwarding), forwarding)],
    ['an object that inherits from it', (seats) => Object.create(seats) as Seats],
    [
      'itself, when its method was wrapped once more',
      (seats) => {
        const { book } = seats as { book: (this: unknown, seatId: string) => Promise<string> };
        seats.book = function (this: Seats, seatId: string) {
          return book.call(this, seatId);
        };
        return seats;
      },
    ],
  ])('as %s', async (_, wrap) => {
    const seats = wrap(await start(inMemory()));
    await expect(seats.book('1')).resolves.toBe('booked 1');
    await using _other = await occupy(nodes, 'seat:1');
    await expect(seats.book('1')).rejects.toMatchObject({ code: 'LOCK_BUSY' });
  });

  it('as a Proxy that its constructor returned, or when it lets nothing be added to it', async () => {
    @Injectable()
    class Wrapped {
      constructor() {
        return new Proxy(this, {});
      }

      @Fenced('wrapped')
      async run(): Promise<string> {
        return this.inner();
      }

      @Fenced('inner')
      async inner(): Promise<string> {
        return 'ran';
      }
    }
    @Injectable()
    class Sealed {
      constructor() {
        Object.freeze(this);
      }

      @Fenced('sealed')
      async run(): Promise<string> {
        return 'ran';
      }
    }
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot({ nodes: createMemoryNodes(1) })],
      providers: [Wrapped, Sealed],
    })
      .setLogger(silentLogger)
      .compile();
    await closeLater(module).init();
    await expect(module.get(Wrapped).run()).resolves.toBe('ran');
    await expect(module.get(Sealed).run()).resolves.toBe('ran');
  });
});
