import 'reflect-metadata';
import { Injectable, Module, Optional, type LoggerService } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { Fence, postgresFence, type FenceToken } from '../../lib/fencing/index.ts';
import {
  Fenced,
  FencingToken,
  RedlockModule,
  type LockEvent,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';
import { startFencedDatabase, type FencedDatabase } from './support/fenced-database.ts';

@Injectable()
class Seats {
  constructor(private readonly fence: Fence<pg.PoolClient>) {}

  @Fenced('seat:{0}')
  async book(id: string, owner: string, @FencingToken() token?: FencingToken): Promise<void> {
    await this.bookWith({ id, owner, token });
  }

  async bookWith(booking: { id: string; owner: string; token?: FenceToken }): Promise<void> {
    const { id, owner, token } = booking;
    await this.fence.transaction(token, (tx) =>
      tx.query(
        'INSERT INTO seat VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner',
        [id, owner],
      ),
    );
  }
}

@Injectable()
class Refunds {
  readonly refunded: string[] = [];
  isDown = false;

  async refund(key: string): Promise<void> {
    if (this.isDown) throw new Error('the bank is closed');
    this.refunded.push(key);
  }
}

@Module({ providers: [Refunds], exports: [Refunds] })
class RefundsModule {}

/** A token that is older than any the nodes grant. */
const oldToken = (id: string): FenceToken => ({ value: 1, keys: [`seat:${id}`], holder: 'old' });

describe('the fence of the module', () => {
  let database: FencedDatabase;
  const base = () => ({ nodes: createMemoryNodes(3), restartGuard: false as const });

  beforeAll(async () => {
    database = await startFencedDatabase('fence_injection');
  }, 120_000);
  afterAll(() => database?.stop());
  afterEach(closeAll);

  async function start(redlock: any, providers: any[] = [Seats], logger = silentLogger) {
    const module = await Test.createTestingModule({ imports: [redlock], providers })
      .setLogger(logger)
      .compile();
    return closeLater(await module.init());
  }

  const ownerOf = async (id: string): Promise<string | undefined> =>
    (await database.pool.query('SELECT owner FROM seat WHERE id = $1', [id])).rows[0]?.owner;

  it('is injected where a constructor asks for Fence', async () => {
    const fence = postgresFence(database.pool);
    const module = await start(RedlockModule.forRoot({ ...base(), fence }));
    expect(module.get(Fence)).toBe(fence);
    await module.get(Seats).book('1', 'ana');
    await expect(ownerOf('1')).resolves.toBe('ana');
    const late = module.get(Seats).bookWith({ id: '1', owner: 'late', token: oldToken('1') });
    await expect(late).rejects.toMatchObject({ code: 'STALE_TOKEN', key: 'seat:1' });
    await expect(ownerOf('1')).resolves.toBe('ana');
  });

  it('may come from an async factory, with a compensation that uses other providers', async () => {
    const module = await start(
      RedlockModule.forRootAsync({
        imports: [RefundsModule],
        inject: [Refunds],
        useFactory: (refunds: Refunds): RedlockModuleOptions => ({
          ...base(),
          fence: postgresFence(database.pool, { onStale: (error) => refunds.refund(error.key) }),
        }),
      }),
    );
    await module.get(Seats).book('2', 'ana');
    const late = module.get(Seats).bookWith({ id: '2', owner: 'late', token: oldToken('2') });
    await expect(late).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(module.get(Refunds, { strict: false }).refunded).toEqual(['seat:2']);
  });

  it('is none where none was given: Nest refuses who asks for it, unless it is optional', async () => {
    @Injectable()
    class Optimist {
      constructor(@Optional() readonly fence?: Fence) {}
    }
    await expect(start(RedlockModule.forRoot(base()))).rejects.toThrow(/argument Fence/);
    const module = await start(RedlockModule.forRoot(base()), [Optimist]);
    expect(module.get(Optimist).fence).toBeUndefined();
    const late = await start(RedlockModule.forRootAsync({ useFactory: base }));
    await expect(late.get(Seats).book('3', 'ana')).rejects.toThrow(TypeError);
    await expect(ownerOf('3')).resolves.toBeUndefined();
  });

  describe('when it refuses a token', () => {
    class RecordingLogger implements LoggerService {
      readonly lines: string[] = [];
      log(): void {}
      warn(message: string): void {
        this.lines.push(`warn ${message}`);
      }
      error(message: string): void {
        this.lines.push(`error ${message}`);
      }
    }

    it('is logged and counted, no matter which code used the fence, until the application ends', async () => {
      const events: LockEvent[] = [];
      const fence = postgresFence(database.pool);
      const logger = new RecordingLogger();
      const options = { ...base(), fence, onEvent: (event: LockEvent) => void events.push(event) };
      const module = await start(RedlockModule.forRoot(options), [Seats], logger);
      await module.get(Seats).book('4', 'ana');
      await fence.claim(oldToken('4')).catch(() => undefined);
      const stale = { type: 'stale', keys: ['seat:4'], error: { token: '1', code: 'STALE_TOKEN' } };
      expect(events.filter(({ type }) => type === 'stale')).toMatchObject([stale]);
      expect(logger.lines).toEqual([
        expect.stringMatching(/^warn Stale fencing token 1 for 'seat:4'/),
      ]);
      await module.close();
      await fence.claim(oldToken('4')).catch(() => undefined);
      expect(events.filter(({ type }) => type === 'stale')).toHaveLength(1);
      expect(logger.lines).toHaveLength(1);
    });

    it('logs a compensation that failed as an error', async () => {
      const logger = new RecordingLogger();
      const refunds = new Refunds();
      refunds.isDown = true;
      const fence = postgresFence(database.pool, { onStale: (error) => refunds.refund(error.key) });
      const module = await start(RedlockModule.forRoot({ ...base(), fence }), [Seats], logger);
      await module.get(Seats).book('5', 'ana');
      const late = module.get(Seats).bookWith({ id: '5', owner: 'late', token: oldToken('5') });
      await expect(late).rejects.toMatchObject({ code: 'STALE_TOKEN' });
      expect(logger.lines).toEqual([
        expect.stringMatching(/^warn Stale/),
        expect.stringMatching(
          /^error onStale failed after token 1 .*Undo it by hand: .*the bank is closed/,
        ),
      ]);
    });
  });
});
