import 'reflect-metadata';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencedUsageError, LockService } from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';

const transaction = new AsyncLocalStorage<true>();

/** Opens a transaction around the method, as transactional decorators do. */
const Transactional = (): MethodDecorator => (_target, _key, descriptor: PropertyDescriptor) => {
  const original = descriptor.value as (...args: unknown[]) => unknown;
  descriptor.value = function (this: unknown, ...args: unknown[]) {
    return transaction.run(true, () => original.apply(this, args));
  };
};

@Injectable()
class Seats {
  @Fenced('seat')
  @Transactional()
  async lockedAround(): Promise<boolean> {
    return transaction.getStore() === true;
  }

  @Transactional()
  @Fenced('seat')
  async lockedInside(): Promise<void> {
    throw new Error('the body ran');
  }

  @Transactional()
  @Fenced('seat', { allowInTransaction: true })
  async independent(): Promise<string> {
    return 'ran';
  }

  @Fenced('seat')
  @Transactional()
  async outer(): Promise<string> {
    return this.inner();
  }

  @Fenced('seat', { nested: 'join' })
  async inner(): Promise<string> {
    return 'joined';
  }

  @Fenced('seat')
  @Transactional()
  async outerWithAnotherKey(): Promise<void> {
    return this.other();
  }

  @Fenced('other')
  async other(): Promise<void> {
    throw new Error('the body ran');
  }
}

describe('@Fenced and transactions', () => {
  afterEach(closeAll);

  const start = async () =>
    (
      await startModule(
        { providers: [Seats] },
        { isInTransaction: () => transaction.getStore() === true },
      )
    ).get(Seats);

  it('runs above @Transactional: the lock is held around the transaction', async () => {
    await expect((await start()).lockedAround()).resolves.toBe(true);
  });

  it('is refused below @Transactional, and says what to do', async () => {
    const seats = await start();
    await expect(seats.lockedInside()).rejects.toThrow(FencedUsageError);
    await expect(seats.lockedInside()).rejects.toThrow(/above @Transactional.*allowInTransaction/s);
  });

  it('is refused when the caller has a transaction open', async () => {
    const seats = await start();
    await expect(transaction.run(true, () => seats.lockedAround())).rejects.toThrow(
      FencedUsageError,
    );
  });

  it('runs with allowInTransaction', async () => {
    await expect((await start()).independent()).resolves.toBe('ran');
  });

  it('joins inside the transaction a lock that is held around it', async () => {
    await expect((await start()).outer()).resolves.toBe('joined');
  });

  it('is refused inside the transaction for a key that is not held around it', async () => {
    await expect((await start()).outerWithAnotherKey()).rejects.toThrow(/Seats\.other/);
  });

  it('leaves LockService alone, whose caller knows whether a transaction is open', async () => {
    const module = await startModule({}, { isInTransaction: () => true });
    await expect(module.get(LockService).withLock('a', async () => 'ran')).resolves.toBe('ran');
  });
});
