import 'reflect-metadata';
import { Controller, Post } from '@nestjs/common';
import Database from 'libsql';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Fenced, LockService, LockSignal, lockSignal } from '../../lib/index.ts';
import { Fence, sqliteFence, type FenceToken } from '../../lib/fencing/index.ts';
import { closeAll, closeLater, startModule, stopTime } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';

const FROZEN = { ttl: 1_000, extend: false, wait: 0 } as const;
const KEY = 'seat:1';

@Controller()
class Bookings {
  constructor(
    private readonly fence: Fence<Database.Database>,
    private readonly locks: LockService,
  ) {}

  @Post('transaction')
  @Fenced(KEY, FROZEN)
  async transaction(): Promise<string> {
    return this.#book();
  }

  @Post('claim-and-transaction')
  @Fenced(KEY, { ...FROZEN, claim: true })
  async claimAndTransaction(): Promise<string> {
    return this.#book();
  }

  @Post('copy')
  @Fenced(KEY, FROZEN)
  async copy(): Promise<string> {
    return this.#book((token) => JSON.parse(JSON.stringify(token)) as FenceToken);
  }

  @Post('swallowed')
  @Fenced(KEY, { ...FROZEN, claim: true })
  async swallowed(): Promise<string> {
    return this.#book().catch(() => 'booked');
  }

  @Post('swallowed-copy')
  @Fenced(KEY, { ...FROZEN, claim: true })
  async swallowedCopy(): Promise<string> {
    return this.#book((token) => ({ ...token })).catch(() => 'booked');
  }

  @Post('claim')
  @Fenced(KEY, { ...FROZEN, claim: true })
  async claim(@LockSignal() signal = lockSignal()): Promise<string> {
    return lost(signal);
  }

  @Post('told-to-throw')
  @Fenced(KEY, { ...FROZEN, claim: true, onLost: 'throw' })
  async toldToThrow(@LockSignal() signal = lockSignal()): Promise<string> {
    return lost(signal);
  }

  @Post('lock-only')
  @Fenced(KEY, FROZEN)
  async lockOnly(@LockSignal() signal = lockSignal()): Promise<string> {
    return lost(signal);
  }

  async #book(tokenOf = (token: FenceToken) => token): Promise<string> {
    const { token, signal } = this.locks.current()!;
    await lost(signal);
    return this.fence.transaction(tokenOf(token), (tx) => {
      tx.prepare("INSERT INTO booking VALUES ('frozen')").run();
      return 'booked';
    });
  }
}

let meanwhile: () => Promise<unknown> = async () => undefined;

async function lost(signal: AbortSignal): Promise<string> {
  await jest.advanceTimersByTimeAsync(FROZEN.ttl);
  expect(signal.aborted).toBe(true);
  await meanwhile();
  return 'booked';
}

describe('a booking over HTTP whose holder was frozen past its lease', () => {
  let database: Database.Database;
  const events: string[] = [];

  beforeEach(() => {
    database = new Database(':memory:');
    database.exec('CREATE TABLE booking (customer TEXT)');
    events.length = 0;
    meanwhile = async () => undefined;
  });
  afterEach(() => closeAll().then(() => database.close()));

  async function start() {
    const fence = sqliteFence(database);
    database.exec(fence.ddl());
    const module = await startModule(
      { controllers: [Bookings] },
      { fence, onEvent: ({ type }) => void events.push(type) },
    );
    const app = closeLater(module.createNestApplication());
    await app.listen(0, '127.0.0.1');
    stopTime();
    const rival = () =>
      module.get(LockService).withLock(KEY, ({ token }) =>
        fence.transaction(token, (tx) => {
          tx.prepare("INSERT INTO booking VALUES ('rival')").run();
        }),
      );
    const post = async (path: string) => {
      const response = await fetch(`${await app.getUrl()}/${path}`, { method: 'POST' });
      const text = await response.text();
      const code = response.ok ? text : (JSON.parse(text) as { code: string }).code;
      return [response.status, code, response.headers.get('retry-after')];
    };
    const booked = () => database.prepare('SELECT customer FROM booking').pluck().all();
    return { post, rival, booked, fence, locks: module.get(LockService) };
  }

  it.each([
    ['transaction', 201, 'booked', ['frozen']],
    ['claim-and-transaction', 201, 'booked', ['frozen']],
    ['copy', 201, 'booked', ['frozen']],
    ['claim', 201, 'booked', []],
    ['told-to-throw', 500, 'LOCK_LOST', []],
    ['lock-only', 500, 'LOCK_LOST', []],
  ])('answers %s without a rival with %d %s', async (path, status, code, books) => {
    const { post, booked } = await start();
    expect(await post(path)).toEqual([status, code, null]);
    expect(booked()).toEqual(books);
    expect(events).toContain('lost');
  });

  it.each([
    ['transaction', 412, 'STALE_TOKEN'],
    ['claim-and-transaction', 412, 'STALE_TOKEN'],
    ['swallowed', 500, 'LOCK_LOST'],
    ['swallowed-copy', 500, 'LOCK_LOST'],
  ])('answers %s beside a rival with %d %s', async (path, status, code) => {
    const { post, rival, booked } = await start();
    meanwhile = rival;
    expect(await post(path)).toEqual([status, code, null]);
    expect(booked()).toEqual(['rival']);
  });

  it('is lost where its claim was rolled back, and a rival has come before it was made again', async () => {
    const { rival, fence, locks } = await start();
    const [claimed, gate] = [new Gate(), new Gate()];
    const claiming = (token: FenceToken) =>
      fence.transaction(token, async () => {
        await fence.claim(token);
        claimed.open();
        await gate.opened;
        throw new Error('own');
      });
    const work = ({ token }: { token: FenceToken }) => claiming(token).catch(() => 'booked');
    const booking = locks.withLock(KEY, work, { ...FROZEN, claim: true });
    await claimed.opened;
    await jest.advanceTimersByTimeAsync(FROZEN.ttl);
    const rivalling = rival();
    await jest.advanceTimersByTimeAsync(FROZEN.ttl);
    gate.open();
    await expect(booking).rejects.toMatchObject({ code: 'LOCK_LOST' });
    await rivalling;
  });
});
