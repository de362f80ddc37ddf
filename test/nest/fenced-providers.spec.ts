import 'reflect-metadata';
import { inspect } from 'node:util';
import { Injectable, Scope, type OnModuleInit } from '@nestjs/common';
import { ContextIdFactory, ModuleRef } from '@nestjs/core';
import type { TestingModule } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockService } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, compileModule, startModule } from './support/applications.ts';
import { CriticalSection } from './support/critical-section.ts';

const section = new CriticalSection();

@Injectable()
class Seats implements OnModuleInit {
  redlockService = { hello: () => 'mine' };
  runner = 'mine';
  early = false;

  constructor(private readonly locks: LockService) {}

  async onModuleInit(): Promise<void> {
    this.early = await this.book('early');
  }

  @Fenced('seat:{0}')
  async book(seatId: string): Promise<boolean> {
    await section.visit();
    return this.locks.current()?.keys.includes(`seat:${seatId}`) ?? false;
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
class StrictSeats extends Seats {
  constructor(locks: LockService) {
    super(locks);
  }

  @Fenced('strict:{0}')
  override async book(seatId: string): Promise<boolean> {
    return super.book(seatId);
  }
}

const twoOf = (make: () => Promise<Seats>) => Promise.all([make(), make()]);
const createdBy = (module: TestingModule) => module.get(ModuleRef).create(Seats);

describe('@Fenced on providers', () => {
  afterEach(closeAll);

  it.each<[string, (module: TestingModule) => Promise<readonly Seats[]> | readonly Seats[]]>([
    ['a singleton', (module) => [module.get(Seats)]],
    [
      'request-scoped instances of different requests',
      (module) => twoOf(() => module.resolve(RequestSeats, ContextIdFactory.create())),
    ],
    ['transient instances', (module) => twoOf(() => module.resolve(TransientSeats))],
    ['instances made by ModuleRef.create', (module) => twoOf(() => createdBy(module))],
    [
      'a subclass that is decorated itself, and its parent',
      (module) => [module.get(StrictSeats), module.get(Seats)],
    ],
  ])('locks on %s, also before the module is initialised', async (_, seatsOf) => {
    const nodes = createMemoryNodes(3);
    const providers = [Seats, RequestSeats, TransientSeats, StrictSeats];
    const first = await compileModule({ providers }, { nodes });
    const others = createMemoryNodes(nodes.map(({ server }) => server));
    const second = await startModule({ providers }, { nodes: others });
    section.reset();
    // Two applications in one process that share servers.
    const seats = [...(await seatsOf(first)), ...(await seatsOf(second))];
    const calls = [...seats, ...seats].map((service) => service.book('12A'));
    expect(await Promise.all(calls)).toEqual(calls.map(() => true));
    expect([section.entered, section.mostInside]).toEqual([calls.length, 1]);
  });

  it('locks a call made in onModuleInit, adds no property that a log shows, and leaves fields of any name alone', async () => {
    const seats = (await startModule({ providers: [Seats] })).get(Seats);
    expect([seats.early, seats.redlockService.hello(), seats.runner]).toEqual([
      true,
      'mine',
      'mine',
    ]);
    const names = ['early', 'locks', 'redlockService', 'runner'];
    expect(Object.getOwnPropertyNames(seats).sort()).toEqual(names);
    expect(inspect(seats)).not.toContain('Symbol');
    const { book } = Seats.prototype as unknown as { book: () => void };
    expect([book.name, book.length]).toEqual(['book', 1]);
  });
});
