import 'reflect-metadata';
import { once } from 'node:events';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Fenced,
  FencedUsageError,
  FencingToken,
  fencingToken,
  LockBusyError,
  LockLostError,
  LockService,
  LockSignal,
  lockSignal,
} from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, startModule } from './support/applications.ts';

const ran: unknown[] = [];

@Injectable()
class Reports {
  constructor(private readonly locks: LockService) {}

  @Fenced('report:{0}', { ttl: 300, wait: 0 })
  async send(
    id: string,
    @FencingToken() token = fencingToken(),
    @LockSignal() signal = lockSignal(),
  ): Promise<unknown> {
    ran.push(id);
    const lock = this.locks.current();
    if (id === 'until-lost') await once(signal, 'abort');
    return [lock?.token === token, lock?.signal === signal];
  }

  @Fenced('report:{0}', { signal: (_id: string, signal?: AbortSignal) => signal, wait: '1m' })
  async patient(id: string, _signal?: AbortSignal): Promise<string> {
    ran.push(id);
    return id;
  }

  @Fenced('report:{0}', { signal: (_id, signal) => signal, wait: '1m', onBusy: 'skip' })
  async skipping(id: string, _signal?: AbortSignal): Promise<string | undefined> {
    ran.push(id);
    return id;
  }
}

describe('@LockSignal()', () => {
  afterEach(closeAll);
  afterEach(() => void ran.splice(0));

  it('hands the method the signal of its lock, which aborts when the lock is lost', async () => {
    const nodes = createMemoryNodes(3);
    const reports = (await startModule({ providers: [Reports] }, { nodes })).get(Reports);
    const forged = new AbortController().signal;
    expect(await reports.send('1', undefined, forged)).toEqual([true, true]);
    const lost = reports.send('until-lost');
    await eventually(() => expect(ran).toContain('until-lost'));
    await using newer = await occupy(nodes, 'report:until-lost', { takeOver: true });
    const error = await lost.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ reason: 'taken' });
    expect(newer.token.value).toBeGreaterThan((error as LockLostError).token);
  });

  it('cannot stand where no lock is taken: not in a constructor, not without @Fenced', async () => {
    class Unlocked {
      async send(@LockSignal() signal = lockSignal()): Promise<AbortSignal> {
        return signal;
      }
    }
    await expect(startModule({ providers: [Unlocked] })).rejects.toThrow(
      'Unlocked.send: @LockSignal() without @Fenced',
    );
  });

  it.each([
    ['token', [undefined, new AbortController().signal], 'fencingToken()'],
    ['signal', [{}, undefined], 'lockSignal()'],
  ])('and the %s have defaults that fail where no lock was taken', async (_name, args, shown) => {
    const plain = Object.getOwnPropertyDescriptor(Undecorated.prototype, 'send')!.value as (
      ...given: unknown[]
    ) => Promise<void>;
    const error = await plain(...args).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(FencedUsageError);
    expect((error as Error).message).toContain(`${shown} was evaluated, and gives no value`);
    expect(ran).toEqual([]);
  });
});

class Undecorated {
  async send(_token = fencingToken(), _signal = lockSignal()): Promise<void> {
    ran.push('ran');
  }
}

describe('the signal option of @Fenced', () => {
  afterEach(closeAll);
  afterEach(() => void ran.splice(0));

  it("ends the wait with the caller's reason, and interrupts nothing that runs", async () => {
    const nodes = createMemoryNodes(3);
    const reports = (await startModule({ providers: [Reports] }, { nodes })).get(Reports);
    const other = await occupy(nodes, 'report:1');
    const caller = new AbortController();
    const waiting = reports.patient('1', caller.signal);
    caller.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    await other.release();
    expect(await reports.patient('1')).toBe('1');
    expect(ran).toEqual(['1']);
  });

  it("passes the caller's reason on as it is, also when that is an error of this package", async () => {
    const nodes = createMemoryNodes(3);
    const reports = (await startModule({ providers: [Reports] }, { nodes })).get(Reports);
    const other = await occupy(nodes, 'report:1');
    const caller = new AbortController();
    const calls = [reports.patient('1', caller.signal), reports.skipping('1', caller.signal)];
    const ended = Promise.allSettled(calls);
    const reason = new LockBusyError(['other'], 5, undefined);
    const { message, stack } = reason;
    caller.abort(reason);
    expect(await ended).toEqual(calls.map(() => ({ status: 'rejected', reason })));
    expect([reason.where, reason.message, reason.stack]).toEqual([undefined, message, stack]);
    await other.release();
  });

  it('must be a function, and its error names the method', async () => {
    const signal = new AbortController().signal as never;
    expect(() => {
      class Wrong {
        @Fenced('x', { signal })
        async work(): Promise<void> {}
      }
      return Wrong;
    }).toThrow("Option 'signal' can't be an object");
    class Broken {
      @Fenced('x', { signal: () => (undefined as never as { of: AbortSignal }).of })
      async work(): Promise<void> {
        ran.push('ran');
      }
    }
    const module = await startModule({ providers: [Broken] });
    await expect(module.get(Broken).work()).rejects.toMatchObject({
      message: expect.stringMatching(
        /^Broken\.work: the option 'signal' threw TypeError: .*not run/,
      ),
      cause: expect.any(TypeError),
    });
    expect([ran, await module.get(LockService).inspect('x')]).toMatchObject([[], { holder: null }]);
  });
});
