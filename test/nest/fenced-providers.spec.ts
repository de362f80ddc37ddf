import 'reflect-metadata';
import { Injectable, Scope, type OnModuleInit } from '@nestjs/common';
import { ContextIdFactory, ModuleRef } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockService } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, compileModule, startModule } from './support/applications.ts';
import { CriticalSection } from './support/critical-section.ts';

const section = new CriticalSection();

abstract class Seats {
  redlockService = { hello: () => 'mine' };
  runner = 'mine';

  constructor(private readonly locks: LockService) {}

  @Fenced('seat:{0}')
  async book(seatId: string): Promise<boolean> {
    await section.visit();
    return this.locks.current()?.keys.includes(`seat:${seatId}`) ?? false;
  }

  bookByItself(seatId: string): Promise<boolean> {
    return this.book(seatId);
  }
}

@Injectable()
class SingletonSeats extends Seats {
  constructor(locks: LockService) {
    super(locks);
  }
}

@Injectable({ scope: Scope.REQUEST })
class RequestSeats extends Seats {
  constructor(locks: LockService) {
    super(locks);
  }
}

@Injectable({ scope: Scope.TRANSIENT })
class TransientSeats extends Seats {
  constructor(locks: LockService) {
    super(locks);
  }
}

@Injectable()
class StrictSeats extends SingletonSeats {
  @Fenced('strict:{0}')
  override async book(seatId: string): Promise<boolean> {
    return super.book(seatId);
  }
}

@Injectable()
class EarlySeats extends SingletonSeats implements OnModuleInit {
  bookedLocked?: boolean;

  async onModuleInit(): Promise<void> {
    this.bookedLocked = await this.book('early');
  }
}

describe('@Fenced on providers', () => {
  afterEach(closeAll);
  afterEach(() => section.reset());

  /** Two calls at once on each of `seats`: whether every one saw its lock, and how many were inside at the same time. */
  async function bookTwiceAtOnce(...seats: readonly Seats[]) {
    const each = [...seats, ...seats];
    const locked = await Promise.all(each.map((service) => service.book('12A')));
    return {
      everyCallLocked: locked.every(Boolean) && section.entered === each.length,
      mostInside: section.mostInside,
    };
  }
  const oneAfterAnother = { everyCallLocked: true, mostInside: 1 };

  it('locks on a singleton', async () => {
    const module = await startModule({ providers: [SingletonSeats] });
    expect(await bookTwiceAtOnce(module.get(SingletonSeats))).toEqual(oneAfterAnother);
  });

  it('locks on request-scoped instances of different requests', async () => {
    const module = await startModule({ providers: [RequestSeats] });
    const resolve = () => module.resolve(RequestSeats, ContextIdFactory.create());
    expect(await bookTwiceAtOnce(await resolve(), await resolve())).toEqual(oneAfterAnother);
  });

  it('locks on transient instances', async () => {
    const module = await startModule({ providers: [TransientSeats] });
    const [first, second] = [
      await module.resolve(TransientSeats),
      await module.resolve(TransientSeats),
    ];
    expect(first).not.toBe(second);
    expect(await bookTwiceAtOnce(first, second)).toEqual(oneAfterAnother);
  });

  it('locks on instances made by ModuleRef.create', async () => {
    const module = await startModule({});
    expect(await bookTwiceAtOnce(await module.get(ModuleRef).create(SingletonSeats))).toEqual(
      oneAfterAnother,
    );
  });

  it('locks on a subclass that is decorated itself, and in the method of its parent', async () => {
    const module = await startModule({ providers: [StrictSeats, SingletonSeats] });
    expect(await bookTwiceAtOnce(module.get(StrictSeats), module.get(SingletonSeats))).toEqual(
      oneAfterAnother,
    );
  });

  it('locks a call made in onModuleInit', async () => {
    const module = await startModule({ providers: [EarlySeats] });
    expect(module.get(EarlySeats).bookedLocked).toBe(true);
  });

  it('locks in a module that was compiled but not initialised, as unit tests have it', async () => {
    const module = await compileModule({ providers: [SingletonSeats] });
    expect(await bookTwiceAtOnce(module.get(SingletonSeats))).toEqual(oneAfterAnother);
  });

  it('excludes two applications in one process that share servers', async () => {
    const nodes = createMemoryNodes(3);
    const servers = nodes.map((node) => node.server);
    const first = await startModule({ providers: [SingletonSeats] }, { nodes });
    const second = await startModule(
      { providers: [SingletonSeats] },
      { nodes: createMemoryNodes(servers) },
    );
    expect(await bookTwiceAtOnce(first.get(SingletonSeats), second.get(SingletonSeats))).toEqual(
      oneAfterAnother,
    );
  });

  it('adds no property to instances and leaves fields of any name alone', async () => {
    const module = await startModule({ providers: [SingletonSeats] });
    const seats = module.get(SingletonSeats);
    expect(seats.redlockService.hello()).toBe('mine');
    expect(seats.runner).toBe('mine');
    expect(new Set(Reflect.ownKeys(seats))).toEqual(new Set(['locks', 'redlockService', 'runner']));
  });

  it('keeps the name and the length of the method', () => {
    const { book } = SingletonSeats.prototype as unknown as { book: () => void };
    expect([book.name, book.length]).toEqual(['book', 1]);
  });
});
