import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { MemoryRedis } from '../../lib/testing/memory/memory-redis.ts';
import { seededRandom } from '../support/manual-environment.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';

// What scripts call is the same on Redis and on the small Redis in memory. Lives are hours, so that nothing expires meanwhile.

const KEYS = ['a', 'b', 'c'];
const COMMANDS = 1_500;
const HOUR_MS = 3_600_000;
/** Of the kinds that servers, and our scripts, tell apart by the first word. */
const ERRORS = /^(WRONGTYPE|ERR)\b.*/s;

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
  redis = new Redis(server.url);
});

afterAll(async () => {
  redis.disconnect();
  await server?.stop();
});

type Words = [name: string, ...values: (string | number)[]];

/** Draws commands with which keys of both types meet, and some that a server rejects. */
function drawCommand(fraction: () => number): Words {
  const one = <Item>(items: readonly Item[]): Item => items[Math.floor(fraction() * items.length)]!;
  const [key, value] = [one(KEYS), one(['x', 'y', '7'])];
  const lifeMs = one([HOUR_MS, 2 * HOUR_MS, 0, -1, 'soon', 1.5]);
  const member = one(['m', 'n', 'o']);
  return one<Words>([
    ['GET', key],
    ['GET'],
    ['SET', key],
    ['SET', key, value, 'PX'],
    ['SET', key, value, 'soon'],
    ['DEL', ...KEYS],
    ['EXISTS', ...KEYS],
    ['MGET', ...KEYS],
    ['SET', key, value],
    ['SET', key, value, 'PX', lifeMs],
    ['SET', key, value, 'PX', HOUR_MS, 'NX'],
    ['SET', key, value, 'PXAT', Date.now() + one([1, 3]) * HOUR_MS],
    ['SET', key, value, 'KEEPTTL'],
    ['PSETEX', key, lifeMs, value],
    ['PEXPIRE', key, lifeMs],
    ['PTTL', key],
    ['EXISTS', key],
    ['DEL', key],
    ['ZADD', key, one([1, 2, 1_800_000_000_000_000, 'high']), member],
    ['ZADD', key, '-inf', member],
    ['ZCARD', key],
    ['ZRANGE', key, 0, one([0, 1, -1])],
    ['ZRANGE', key, 0, -1, 'WITHSCORES'],
    ['ZPOPMIN', key],
    ['PUBLISH', 'nobody listens', value],
  ]);
}

/** An answer without what depends on the moment: lives in half hours, and the first word of an error. */
async function outcomeOf(answer: () => unknown): Promise<unknown> {
  try {
    const said = await answer();
    if (typeof said === 'number' && said > HOUR_MS / 2) return Math.round(said / (HOUR_MS / 2));
    // RESP3 has members with their scores in pairs.
    return Array.isArray(said) ? said.flat() : ((said as { ok?: string } | null)?.ok ?? said);
  } catch (error) {
    return (error as Error).message.replace(ERRORS, '$1');
  }
}

describe('a Redis in memory', () => {
  it.each([1, 2, 3])('answers the commands of the scripts as Redis does, seed %i', async (seed) => {
    const memory = new MemoryRedis(
      () => Date.now() * 1_000,
      () => '',
      () => 0,
    );
    await redis.flushall();
    const random = seededRandom(seed);
    for (let step = 0; step < COMMANDS; step += 1) {
      const [name, ...values] = drawCommand(() => random.fraction());
      const expected = await outcomeOf(() => redis.call(name, values));
      const received = await outcomeOf(() => memory.call(name, ...values));
      expect([step, name, values, received]).toEqual([step, name, values, expected]);
    }
  });
});
