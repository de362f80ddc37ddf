import { beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisFence } from '../../lib/fencing/index.ts';
import type { FenceStore } from '../../lib/testing/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { AGED, itConforms, tokenOf } from './support/account-stores.ts';
import { EXPIRE } from './support/forget.ts';

describe('redisFence', () => {
  let redis: Redis;
  useRedisServers(1, { own: true }, ([server]) => {
    redis = new Redis(server!.url);
    return () => redis.disconnect();
  });

  beforeEach(() => redis.flushall());

  itConforms('the script', () => {
    const fence = redisFence(redis, AGED);
    const store: FenceStore = {
      maxAge: 86_400_000,
      prune: ({ before }) => redis.eval(EXPIRE, 0, before),
      claim: (ticket) => fence.claim(tokenOf(ticket)),
      read: ({ resource }) => redis.get(`account:${resource}`),
      write: async (ticket, text, pause) => {
        await pause();
        await fence.write(tokenOf(ticket), [['SET', `account:${ticket.resource}`, text]]);
      },
    };
    return { store, close: () => undefined };
  });

  it('runs several commands in one step and returns their replies', async () => {
    const fence = redisFence(redis);
    const token = { value: 34, keys: ['seat:{9}'], holder: 'ana' };
    await expect(
      fence.write(token, [
        ['SET', '{9}:owner', 'ana'],
        ['RPUSH', '{9}:log', 'taken', 'by', 'ana'],
        ['GET', '{9}:owner'],
      ]),
    ).resolves.toEqual(['OK', 3, 'ana']);
  });

  it('reports the current token and holder when it refuses, and writes nothing', async () => {
    const seen: unknown[] = [];
    const fence = redisFence(redis, {
      onStale: (error, context) => void seen.push(error, context.operation),
    });
    await fence.claim({ value: 9, keys: ['a', 'b'], holder: 'new' });
    const stale = fence.write({ value: 8, keys: ['b', 'c'], holder: 'old' }, [
      ['SET', 'data-of-c', 'x'],
    ]);
    await expect(stale).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      key: 'b',
      token: '8',
      currentToken: '9',
      currentHolder: 'new',
    });
    expect(seen).toEqual([expect.objectContaining({ code: 'STALE_TOKEN' }), 'write']);
    await expect(redis.get('data-of-c')).resolves.toBeNull();
    await expect(redis.exists(fence.fenceName('c'))).resolves.toBe(0);
  });

  it('keeps a fence in the hash slot of its key', async () => {
    const fence = redisFence(redis);
    for (const key of ['plain', 'seat:{12A}', 'a{b}c{d}', '{x}', '#{x}', '{x}{y}', 'ключ']) {
      const slots = await Promise.all([
        redis.cluster('KEYSLOT', key),
        redis.cluster('KEYSLOT', fence.fenceName(key)),
      ]).catch(
        // A server without cluster mode may not answer this; then our own sum does.
        () => [slotOf(key), slotOf(fence.fenceName(key))],
      );
      expect(slots[0]).toBe(slots[1]);
    }
    expect(() => fence.fenceName('{}broken')).toThrow(/hash slot/);
    expect(() => fence.fenceName('a}b')).toThrow(/hash slot/);
  });

  it('has a fence of its own for every key', async () => {
    const fence = redisFence(redis);
    expect([fence.fenceName('x'), fence.fenceName('a{x}')]).toEqual(['fence:{x}', 'fence:a{x}']);
    const keys = ['x', '{x}', '#{x}', '##{x}', '#x', '{#x}', '#{#x}', '#a{x}', 'a{x}', '{x}#'];
    expect(new Set(keys.map((key) => fence.fenceName(key))).size).toBe(keys.length);
    await fence.claim({ value: 9, keys: ['x'], holder: 'of x' });
    const only = { value: 5, keys: ['{x}'], holder: 'of {x}' };
    await expect(fence.write(only, [['SET', '{x}:data', 'y']])).resolves.toEqual(['OK']);
  });
});

/** The hash slot by the rules of Redis Cluster: CRC16 (XMODEM) of the first non-empty tag, or of all. */
function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1)
      crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc % 16_384;
}
