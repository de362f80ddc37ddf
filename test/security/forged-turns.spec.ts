import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../lib/core/events.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

const keyPrefix = `forged:${randomUUID()}:`;
/** Channels of every service that waits. */
const channels = `${keyPrefix}#turns:*`;
const TURN = `0 ${keyPrefix}a`;
let forgers: Redis[];
const servers = useRedisServers(3, {}, (started) => {
  forgers = started.map(({ url }) => new Redis(url));
  return () => forgers.forEach((forger) => forger.disconnect());
});
const openRedlock = useRedlocks();

function service(events: LockEvent[] = []): Promise<Redlock> {
  const onEvent = (event: LockEvent): unknown => events.push(event);
  return openRedlock(redisNodes(servers), { keyPrefix, ttl: '1h', wait: '1h', onEvent });
}

async function untilWaiting(): Promise<void> {
  for (const forger of forgers) {
    await eventually(async () => expect(await forger.pubsub('CHANNELS', channels)).not.toEqual([]));
  }
}

/** Resolves when every server has delivered them to all that wait. */
async function publish(messages: readonly (string | Buffer)[]): Promise<void> {
  for (const forger of forgers) {
    const names = (await forger.pubsub('CHANNELS', channels)) as string[];
    await Promise.all(
      names.flatMap((name) => messages.map((message) => forger.publish(name, message))),
    );
  }
}

describe('forged turns', () => {
  it('forged turns of every form wake a waiter, and give it no lock that is held', async () => {
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
      '0 ',
      '0 another lock',
      `1 ${keyPrefix}a`,
      `-1 ${keyPrefix}a`,
      `1000000 ${keyPrefix}a`,
      ...Array.from({ length: 50 }, () => TURN),
      ...Array.from({ length: 50 }, (_, index) => createHash('sha256').update(`${index}`).digest()),
    ];
    // Messages come apart from each other, so that many of them end a wait of their own.
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
    // A single try can answer many messages; never more than one each, and its own.
    expect(acquired.tries).toBeLessThanOrEqual(3 * messages.length + 10);
    await next.release();
  });
});
