import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import { Fence, postgresFence, type FenceEvent } from '../../lib/fencing/index.ts';
import {
  Fenced,
  FencingToken,
  LockLostError,
  LockService,
  StaleTokenError,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';
import { startFencedDatabase, type FencedDatabase } from './support/fenced-database.ts';

let database: FencedDatabase;

const readOwner = async (id: string): Promise<string | null> =>
  (await database.pool.query('SELECT owner FROM seat WHERE id = $1', [id])).rows[0].owner;

/** Between a method's read and its write. */
interface Pause {
  readonly hasRead: Gate;
  readonly mayWrite: Gate;
}

/** Reads outside of its writing transaction, thinks for a while, and writes what depends on what it read. */
@Injectable()
class Seats {
  ran = 0;

  constructor(private readonly fence: Fence<pg.PoolClient>) {}

  @Fenced('seat:{0}', { claim: true })
  async appendClaimed(
    id: string,
    name: string,
    pause: Pause,
    @FencingToken() token?: FencingToken,
  ): Promise<void> {
    const before = await readOwner(id);
    pause.hasRead.open();
    await pause.mayWrite.opened;
    await this.write(id, `${before ?? ''}${name}`, token);
  }

  async write(id: string, owner: string, token?: FencingToken): Promise<void> {
    await this.fence.transaction(token, (tx) =>
      tx.query('UPDATE seat SET owner = $2 WHERE id = $1', [id, owner]),
    );
  }

  @Fenced('seat:{0}')
  async tokenOf(_id: string, @FencingToken() token?: FencingToken): Promise<FencingToken> {
    return token!;
  }

  @Fenced('seat:{0}', { claim: true, nested: 'join' })
  async atStart(id: string, @FencingToken() token?: FencingToken) {
    this.ran += 1;
    return { row: await database.fenceRow(`seat:${id}`), token: token! };
  }

  @Fenced('seat:{0}', { claim: true, wait: 100 })
  async briefly(id: string) {
    return this.atStart(id);
  }

  @Fenced('seat:{0}', { claim: true, onBusy: 'skip' })
  async orSkip(id: string) {
    return (await this.atStart(id)) as object | undefined;
  }

  @Fenced(['seat:{0}', 'row:{0}'], { claim: true })
  async withRow(_id: string, @FencingToken() token?: FencingToken) {
    return token!;
  }

  @Fenced('seat:{0}', { claim: true })
  async outer(id: string) {
    return this.atStart(id);
  }

  @Fenced('seat:{0}')
  async insideTransaction(id: string, @FencingToken() token?: FencingToken) {
    return this.fence.transaction(token, () => this.atStart(id));
  }

  @Fenced('seat:{0}', { claim: true, ttl: 300, extend: false })
  async impatient(_id: string): Promise<void> {
    this.ran += 1;
  }
}

describe('@Fenced(key, { claim: true })', () => {
  const events: FenceEvent[] = [];
  let id: string;
  let count = 0;

  beforeAll(async () => {
    database = await startFencedDatabase('fenced_claim');
  }, 120_000);
  afterAll(() => database?.stop());
  afterEach(closeAll);

  beforeEach(async () => {
    events.length = 0;
    id = String((count += 1));
    await database.pool.query('INSERT INTO seat (id) VALUES ($1)', [id]);
  });

  async function start(options: Partial<RedlockModuleOptions> = {}) {
    const fence = postgresFence(database.pool, { onEvent: (event) => void events.push(event) });
    const module = await startModule({ providers: [Seats] }, { fence, ...options });
    return { fence, module, seats: module.get(Seats), locks: module.get(LockService) };
  }

  // Of this test: a claim that an earlier one gave up may still have been on its way to the database.
  const claims = () =>
    events.filter(
      (event) =>
        'operation' in event && event.operation === 'claim' && event.keys.includes(`seat:${id}`),
    );

  it('brings the token to the resource before the first statement of the method', async () => {
    const { seats } = await start();
    const { row, token } = await seats.atStart(id);
    expect(row).toEqual({ token: String(token), holder: token.holder });
  });

  it('rejects without running the method when a newer holder was there, and lets go of the lock', async () => {
    const { fence, seats, locks } = await start();
    const newer = { value: Number.MAX_SAFE_INTEGER, keys: [`seat:${id}`], holder: 'newer' };
    await fence.claim(newer);
    const stale = seats.atStart(id);
    await expect(stale).rejects.toThrow(StaleTokenError);
    await expect(stale).rejects.toMatchObject({ currentHolder: 'newer' });
    expect(seats.ran).toBe(0);
    const free = await locks.tryAcquire(`seat:${id}`);
    expect(free).not.toBeNull();
    await free!.release();
  });

  describe('when the resource has seen a number ahead of our clocks', () => {
    const HOUR_MICROS = 3_600_000_000;
    const seen = (hoursAhead: number) => ({
      value: Date.now() * 1_000 + hoursAhead * HOUR_MICROS,
      keys: [`seat:${id}`],
      holder: 'ahead',
    });

    it('takes the lock again, with a number above that one, and claims once more', async () => {
      const { fence, seats } = await start();
      const ahead = seen(23);
      await fence.claim(ahead);
      const { row, token } = await seats.atStart(id);
      expect(token.value).toBeGreaterThan(ahead.value);
      expect(row?.holder).toBe(token.holder);
      expect(seats.ran).toBe(1);
      expect(claims().map(({ type }) => type)).toEqual(['admitted', 'stale', 'admitted']);
      await expect(seats.atStart(id)).resolves.toBeDefined();
      expect(claims()).toHaveLength(4);
    });

    it('does not where nodes would refuse the number: more than a day ahead', async () => {
      const { fence, seats } = await start();
      await fence.claim(seen(25));
      await expect(seats.atStart(id)).rejects.toThrow(StaleTokenError);
      expect(seats.ran).toBe(0);
      expect(claims()).toHaveLength(2);
    });

    it.each(['atStart', 'orSkip'] as const)(
      'does not with the minHold of the module, which keeps the lock: %s',
      async (method) => {
        const { fence, seats } = await start({ minHold: 100, wait: '5s' });
        await fence.claim(seen(1));
        await expect(seats[method](id)).rejects.toThrow(StaleTokenError);
        expect(claims()).toHaveLength(2);
      },
    );

    it('does not when its lock is over, also where no timer has said so yet', async () => {
      const { fence, seats } = await start();
      const claim = fence.claim.bind(fence);
      await claim(seen(1));
      fence.claim = (token) =>
        claim(token).finally(() => {
          for (const startMs = performance.now(); performance.now() - startMs < 400;);
        });
      await expect(seats.impatient(id)).rejects.toThrow(StaleTokenError);
      expect([seats.ran, claims().length]).toEqual([0, 2]);
    });

    it('does so for each key of a set', async () => {
      const { fence, seats } = await start();
      await fence.claim({ ...seen(1), keys: [`row:${id}`] });
      const ahead = seen(2);
      await fence.claim(ahead);
      const { value } = await seats.withRow(id);
      expect(value).toBeGreaterThan(ahead.value);
      expect(claims().map(({ type }) => type)).toEqual(['admitted', 'stale', 'stale', 'admitted']);
    });

    it.each(['briefly', 'orSkip'] as const)(
      'rejects with the refusal when a newer holder has the lock then: %s',
      async (method) => {
        const { fence, seats, locks } = await start();
        const [isRefused, isQueued] = [new Gate(), new Gate()];
        const claim = fence.claim.bind(fence);
        await claim(seen(1));
        // Outside of the section, where it does not join the lock.
        const newer = isRefused.opened.then(() => {
          const waiting = locks.acquire(`seat:${id}`);
          isQueued.open();
          return waiting;
        });
        fence.claim = async (token) => {
          isRefused.open();
          await isQueued.opened;
          await new Promise((resolve) => setImmediate(resolve));
          return claim(token);
        };
        await expect(seats[method](id)).rejects.toMatchObject({
          code: 'STALE_TOKEN',
          currentHolder: 'ahead',
          where: `Seats.${method}`,
        });
        expect(seats.ran).toBe(0);
        await (await newer).release();
      },
    );

    it('does not in the middle of work under the lock', async () => {
      const { fence, seats, locks } = await start();
      await locks.withLock(`seat:${id}`, async () => {
        await fence.claim(seen(1));
        await expect(seats.atStart(id)).rejects.toThrow(StaleTokenError);
      });
      expect([seats.ran, claims().length]).toEqual([0, 2]);
    });

    it('claims no third time when another number ahead came meanwhile', async () => {
      const { fence, seats } = await start();
      await fence.claim(seen(1));
      const claim = fence.claim.bind(fence);
      let tries = 0;
      fence.claim = async (token) => {
        if ((tries += 1) === 2) await claim(seen(2));
        return claim(token);
      };
      await expect(seats.atStart(id)).rejects.toThrow(StaleTokenError);
      expect([tries, seats.ran]).toEqual([2, 0]);
    });

    it('does not with a source of tokens, which gives the next number all the same', async () => {
      const tokens = { issue: async () => 7 };
      const { fence, seats } = await start({ tokens });
      await fence.claim({ ...seen(0), value: 9 });
      await expect(seats.atStart(id)).rejects.toMatchObject({ token: '7', currentToken: '9' });
      expect(claims()).toHaveLength(2);
    });
  });

  it('keeps late writes out from the moment the method begins', async () => {
    const { seats } = await start();
    const late = await seats.tokenOf(id);
    const pause: Pause = { hasRead: new Gate(), mayWrite: new Gate() };
    const newer = seats.appendClaimed(id, 'newer', pause);
    await pause.hasRead.opened;
    await expect(seats.write(id, 'late', late)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    pause.mayWrite.open();
    await newer;
    expect(await readOwner(id)).toBe('newer');
  });

  it('claims once for methods that call each other', async () => {
    const { seats } = await start();
    const { row, token } = await seats.outer(id);
    expect(row?.token).toBe(String(token));
    expect(claims()).toHaveLength(1);
  });

  it('does not wait for the fence transaction it is called in', async () => {
    const { seats } = await start();
    const { token } = await seats.insideTransaction(id);
    await expect(database.fenceRow(`seat:${id}`)).resolves.toEqual({
      token: String(token),
      holder: token.holder,
    });
  });

  it('rejects with the loss, without running the method, when the claim waits for a paused transaction too long', async () => {
    const { seats } = await start();
    const paused = await database.pool.connect();
    try {
      await paused.query('BEGIN');
      await paused.query(
        "INSERT INTO redlock_fence (resource, token, holder) VALUES ($1, 1, 'paused')",
        [`seat:${id}`],
      );
      await expect(seats.impatient(id)).rejects.toThrow(LockLostError);
      expect(seats.ran).toBe(0);
    } finally {
      await paused.query('ROLLBACK');
      paused.release();
    }
  });

  it('is refused at the call in a class that the boot did not see', async () => {
    let ran = false;
    class Unseen {
      @Fenced('a', { claim: true })
      async run(): Promise<void> {
        ran = true;
      }
    }
    const module = await startModule({});
    const unseen = await module.get(ModuleRef).create(Unseen);
    await expect(unseen.run()).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    expect(ran).toBe(false);
  });
});
