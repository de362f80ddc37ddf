import 'reflect-metadata';
import { Injectable, Module, Optional, type OnModuleInit } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import Database from 'libsql';
import { Redlock } from '../../lib/core/redlock.ts';
import { Fence, sqliteFence } from '../../lib/fencing/index.ts';
import { RedlockModule, type LockEvent, type RedlockModuleOptions } from '../../lib/index.ts';
import { createFencingToken, createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, closeLater, redlockInMemory } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';
import { Recorder } from './support/recorder.ts';

let database: Database.Database;
beforeEach(() => void (database = new Database(':memory:')));
afterEach(closeAll);
afterEach(() => void database.close());

async function start(redlock: any, providers: any[] = []) {
  const recorder = new Recorder();
  const module = await Test.createTestingModule({ imports: [redlock], providers })
    .setLogger(recorder)
    .compile();
  return { module: closeLater(await module.init()), recorder };
}

@Injectable()
class Seats {
  constructor(readonly fence: Fence) {}
}

@Injectable()
class Refunds {
  refund(): never {
    throw new Error('the bank is closed');
  }
}

@Module({ providers: [Refunds], exports: [Refunds] })
class RefundsModule {}

const token = (value: number) => createFencingToken('seat:1', value);

describe('the fence of the module', () => {
  it('is injected where a constructor asks for Fence, and its refusals are logged and counted until the application ends', async () => {
    const fence = sqliteFence(database);
    database.exec(fence.ddl());
    const stale: LockEvent[] = [];
    const onEvent = (event: LockEvent) => void (event.type === 'stale' && stale.push(event));
    const { module, recorder } = await start(redlockInMemory({ fence, onEvent }), [Seats]);
    expect(module.get(Seats).fence).toBe(fence);
    await fence.claim(token(2));
    await expect(fence.claim(token(1))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    const refused = { type: 'stale', keys: ['seat:1'], error: { token: '1' } };
    expect(stale).toMatchObject([refused]);
    expect(recorder.warnings).toMatch(/^warn Stale fencing token 1 for 'seat:1'.*$/);
    await module.close();
    await fence.claim(token(1)).catch(() => undefined);
    expect([stale.length, recorder.warnings.split('\n').length]).toEqual([1, 1]);
  });

  it('may come from an async factory, with a compensation whose failure is an error in the log', async () => {
    const redlock = RedlockModule.forRootAsync({
      imports: [RefundsModule],
      inject: [Refunds],
      useFactory: (refunds: Refunds): RedlockModuleOptions => {
        const fence = sqliteFence(database, { onStale: () => refunds.refund() });
        database.exec(fence.ddl());
        return { nodes: createMemoryNodes(3), fence };
      },
    });
    const { module, recorder } = await start(redlock, [Seats]);
    const { fence } = module.get(Seats);
    await fence.claim(token(2));
    await expect(fence.transaction(token(1), () => undefined)).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
    expect(recorder.lines.at(-1)).toMatch(
      /^error onStale failed after token 1 .*Undo it by hand: .*the bank is closed/,
    );
  });

  it('is none where none was given: Nest refuses who asks for it, unless it is optional', async () => {
    @Injectable()
    class Optimist {
      constructor(@Optional() readonly fence?: Fence) {}
    }
    await expect(start(redlockInMemory(), [Seats])).rejects.toThrow(/argument Fence/);
    const { module } = await start(redlockInMemory(), [Optimist]);
    expect(module.get(Optimist).fence).toBeUndefined();
  });
});

describe('an application that starts with a fence', () => {
  const warningsOf = async (fence: RedlockModuleOptions['fence'], providers: any[] = []) =>
    (await start(redlockInMemory({ fence, startupTimeout: 200 }), providers)).recorder.warnings;

  it('does not start when its table could not refuse stale tokens, and is not kept alive', async () => {
    const fence = sqliteFence(database);
    database.exec(fence.ddl().replace('TEXT', 'TEXT COLLATE NOCASE'));
    const closed = jest.spyOn(Redlock.prototype, 'close');
    const error: unknown = await warningsOf(fence).catch((failure: unknown) => failure);
    expect(closed).toHaveBeenCalledTimes(1);
    closed.mockRestore();
    expect(error).toMatchObject({ code: 'REDLOCK_CONFIG', option: 'fence' });
  });

  it('warns of a table that is missing, but not of one that a module creates when it starts', async () => {
    const fence = sqliteFence(database);
    expect(await warningsOf(fence)).toContain(fence.ddl());
    @Injectable()
    class Migration implements OnModuleInit {
      onModuleInit(): void {
        database.exec(fence.ddl());
      }
    }
    expect(await warningsOf(fence, [Migration])).toBe('');
  });

  it.each([
    ['is out of reach', () => Promise.reject(new Error('refused')), /Error: refused/],
    ['does not answer', () => new Promise<never>(() => {}), /no answer within 200 ms/],
    ['can not be asked', undefined, /^$/],
  ])('starts although the database %s', async (_, check, warning) => {
    expect(await warningsOf({ claim: async () => undefined, check })).toMatch(warning);
  });

  it('ends the start when it is closed while the database does not answer', async () => {
    const isChecking = new Gate();
    const check = () => {
      isChecking.open();
      return new Promise<never>(() => {});
    };
    const fence = { claim: async () => undefined, check };
    const imports = [redlockInMemory({ fence, startupTimeout: '1h' })];
    const module = await Test.createTestingModule({ imports }).compile();
    // Nest begins the shutdown of an application without a server after the start.
    const app = module.createNestApplication();
    const started = app.init();
    await isChecking.opened;
    await app.close();
    await expect(started).rejects.toMatchObject({ code: 'REDLOCK_CLOSED' });
  });
});
