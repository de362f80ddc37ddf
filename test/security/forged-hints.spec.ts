import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../lib/core/events.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { eventually } from '../support/eventually.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';

const keyPrefix = `forged:${randomUUID()}:`;
const channel = `${keyPrefix}a`;
let servers: RedisServer[];
let forgers: Redis[];
const open: Redlock[] = [];

beforeAll(async () => {
  servers = await startRedisServers(3);
  forgers = servers.map(({ url }) => new Redis(url));
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((service) => service.close()));
});
afterAll(async () => {
  for (const forger of forgers) forger.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

async function service(events: LockEvent[] = []): Promise<Redlock> {
  const redlock = new Redlock(
    servers.map(({ url }) => new RedisLockNode(url)),
    {
      restartGuard: false,
      keyPrefix,
      ttl: '30s',
      wait: '60s',
      onEvent: (event) => events.push(event),
    },
  );
  open.push(redlock);
  redlock.open();
  expect(await redlock.ready(20_000)).toBe(true);
  return redlock;
}

async function untilWaiting(): Promise<void> {
  for (const forger of forgers) {
    await eventually(async () =>
      expect(await forger.pubsub('CHANNELS', channel)).toEqual([channel]),
    );
  }
}

/** Resolves when every server has delivered them. */
async function publish(messages: readonly (string | Buffer)[]): Promise<void> {
  for (const forger of forgers) {
    await Promise.all(messages.map((message) => forger.publish(channel, message)));
  }
}

describe('forged hints', () => {
  it('of every form wake a waiter, and give it nothing that is held', async () => {
    const events: LockEvent[] = [];
    const [holder, waiter] = [await service(), await service(events)];
    const held = await holder.acquire('a');
    let granted = false;
    const waiting = waiter.acquire('a').then((lock) => {
      granted = true;
      return lock;
    });
    await untilWaiting();
    const messages = [
      held.token.holder,
      String(held.token),
      '',
      'null',
      '1',
      '{"granted":true}',
      '*1\r\n:1\r\n',
      '__proto__',
      'x'.repeat(100_000),
      ...Array.from({ length: 50 }, () => randomBytes(24)),
      ...Array.from({ length: 50 }, () => randomBytes(18).toString('base64url')),
    ];
    // Apart from each other, so that many of them end a wait of their own.
    for (const message of messages) {
      await publish([message]);
      await sleep(2);
    }
    expect(granted).toBe(false);
    expect(held.isHeld).toBe(true);
    await held.extend();
    expect(granted).toBe(false);
    await held.release();
    const next = await waiting;
    expect(next.token.value).toBeGreaterThan(held.token.value);
    const acquired = events.find(({ type }) => type === 'acquired') as { tries: number };
    expect(acquired.tries).toBeGreaterThan(5);
    // One try can answer many messages; never more than one each, and its own.
    expect(acquired.tries).toBeLessThanOrEqual(3 * messages.length + 10);
    await next.release();
  });

  it('in a burst of thousands cost a waiter few tries', async () => {
    const events: LockEvent[] = [];
    const [holder, waiter] = [await service(), await service(events)];
    const held = await holder.acquire('a');
    const waiting = waiter.acquire('a');
    await untilWaiting();
    await publish(Array.from({ length: 3_000 }, (_, index) => `forged-${index}`));
    await held.release();
    await (await waiting).release();
    const acquired = events.find(({ type }) => type === 'acquired') as { tries: number };
    expect(acquired.tries).toBeLessThan(100);
  });

  it('under contention let no two in, and tokens still grow', async () => {
    const services = [await service(), await service(), await service()];
    let forging = true;
    const forgery = (async () => {
      for (let index = 0; forging; index += 1) {
        await publish([`forged-${index}`, randomBytes(24), '']);
      }
    })();
    let inside = 0;
    const tokens: number[] = [];
    const work = services.flatMap((redlock) =>
      Array.from({ length: 8 }, () =>
        redlock.withLock('a', async (lock) => {
          inside += 1;
          expect(inside).toBe(1);
          tokens.push(lock.token.value);
          await new Promise((resolve) => setImmediate(resolve));
          inside -= 1;
        }),
      ),
    );
    try {
      await Promise.all(work);
    } finally {
      forging = false;
      await forgery;
    }
    expect(tokens).toHaveLength(24);
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(new Set(tokens).size).toBe(24);
  });
});
