import { once } from 'node:events';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { FencingToken } from '../../lib/core/fencing-token.ts';
import { redisFence, type RedisFence, type RedisWriteCommand } from '../../lib/fencing/index.ts';
import type { FenceStore } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { Link } from '../support/link.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { AGED, itConforms, tokenOf as tokenOfTicket } from './support/accounts.ts';
import { EXPIRE } from './support/forget.ts';
import { AGE, AGE_HOURS, HOUR, tokenOf, tooOld, usage } from './support/ages.ts';

const LASTS_MS = (AGE_HOURS + 1) * HOUR;
const token = { value: 34, keys: ['seat:{9}'], holder: 'ana' };
const stale = expect.objectContaining({ code: 'STALE_TOKEN' });

describe('redisFence', () => {
  let redis: Redis;
  let fence: RedisFence;
  let aged: RedisFence;
  useRedisServers(1, { own: true }, ([server]) => {
    redis = new Redis(server!.url);
    return () => redis.disconnect();
  });
  beforeEach(async () => {
    await redis.flushall();
    fence = redisFence(redis);
    aged = redisFence(redis, AGE);
  });

  itConforms({
    'the script': () => {
      const accountFence = redisFence(redis, AGED);
      const store: FenceStore = {
        maxAge: 86_400_000,
        prune: ({ before }) => redis.eval(EXPIRE, 0, before),
        claim: (ticket) => accountFence.claim(tokenOfTicket(ticket)),
        read: ({ resource }) => redis.get(`account:${resource}`),
        write: async (ticket, text, pause) => {
          await pause();
          await accountFence.write(tokenOfTicket(ticket), [
            ['SET', `account:${ticket.resource}`, text],
          ]);
        },
      };
      return { store, close: () => undefined };
    },
  });

  it('runs very many commands in one step, and returns their replies', async () => {
    const pushes = Array.from({ length: 150_000 }, (_none, index): RedisWriteCommand => [
      'RPUSH',
      '{9}:log',
      index,
    ]);
    const replies = await fence.write(token, [['SET', '{9}:owner', 'ana'], ...pushes]);
    expect(replies).toHaveLength(150_001);
    expect([replies[0], replies.at(-1)]).toEqual(['OK', 150_000]);
  });

  it('stores strings, numbers and bytes as they were at the call', async () => {
    const bytes = Buffer.from('00ff2c', 'hex');
    const written = fence.write(token, [
      ['RPUSH', 'list', '', 'é', 1.5, bytes, new Uint8Array(bytes.buffer, bytes.byteOffset + 1, 2)],
    ]);
    bytes.fill(0);
    await written;
    const stored = await redis.lrangeBuffer('list', 0, -1);
    const texts = stored.map((each) => each.toString('hex'));
    expect(texts).toEqual(['', 'c3a9', '312e35', '00ff2c', 'ff2c']);
  });

  it.each([undefined, null, {}, ['b'], true, new Date(), Number.NaN, 1n])(
    'refuses %p in a command behind a right one, and writes nothing',
    async (value) => {
      for (const wrong of [
        ['SET', 'a', value],
        ['SET', value, 'b'],
      ]) {
        const call = fence.write(token, [['SET', 'a', 'b'], wrong as never]);
        await expect(call).rejects.toEqual(usage(/SET takes strings, .* Nothing was written/));
      }
      await expect(redis.keys('*')).resolves.toEqual([]);
    },
  );

  it('reports the current token and holder when it refuses, and writes nothing', async () => {
    const seen: unknown[] = [];
    const reportingFence = redisFence(redis, {
      onStale: (error, context) => void seen.push(error, context.operation),
    });
    await reportingFence.claim({ value: 9, keys: ['a', 'b'], holder: 'new' });
    const write = reportingFence.write({ value: 8, keys: ['b', 'c'], holder: 'old' }, [
      ['SET', 'data-of-c', 'x'],
    ]);
    const refusal = { key: 'b', token: '8', currentToken: '9', currentHolder: 'new' };
    await expect(write).rejects.toMatchObject({ code: 'STALE_TOKEN', ...refusal });
    expect(seen).toEqual([stale, 'write']);
    await expect(redis.exists('data-of-c', reportingFence.fenceName('c'))).resolves.toBe(0);
  });

  it('has a fence of its own for every key, in the hash slot of that', async () => {
    const names = {
      x: 'fence:{x}',
      '{x}': 'fence:#{x}',
      '#{x}': 'fence:##{x}',
      'a{x}': 'fence:a{x}',
      '#a{x}': 'fence:#a{x}',
      '{x}{y}': 'fence:{x}{y}',
      ключ: 'fence:{ключ}',
    };
    for (const [key, name] of Object.entries(names)) expect(fence.fenceName(key)).toBe(name);
    for (const key of ['{}broken', 'a}b'])
      await expect(fence.claim({ ...token, keys: [key] })).rejects.toEqual(usage(/hash slot/));
  });

  it('lets a fence expire an hour after its token is too old, whatever somebody did to its expiry', async () => {
    const [old, newest, late, tooLate] = [AGE_HOURS - 1, 1, 2, AGE_HOURS + 1].map((hours) =>
      tokenOf('x', hours),
    ) as [FencingToken, FencingToken, FencingToken, FencingToken];
    const lasts = ({ value }: FencingToken): number => value / 1_000 + LASTS_MS;
    for (const [by, brought, outcome, expiry] of [
      [aged, old, 'admitted', lasts(old)],
      [aged, newest, 'admitted', lasts(newest)],
      [aged, late, 'STALE_TOKEN', lasts(newest)],
      [aged, tooLate, 'STALE_TOKEN', lasts(newest)],
      [fence, newest, 'admitted', -1],
      [fence, late, 'STALE_TOKEN', -1],
    ] as const) {
      await redis.expire(fence.fenceName('x'), 100);
      const claim = by.claim(brought).then(() => 'admitted');
      expect(await claim.catch((error) => error.code)).toBe(outcome);
      await expect(redis.pexpiretime(fence.fenceName('x'))).resolves.toBe(expiry);
    }
  });

  it('refuses the token of a counter, which has no age, and lets no counter expire', async () => {
    const counted = { value: 7, keys: ['x'], holder: 'counted' };
    await fence.claim(counted);
    await expect(aged.claim(counted)).rejects.toEqual(usage(/7 is not a time/));
    await expect(aged.write(counted, [])).rejects.toEqual(usage(/7 is not a time/));
    await expect(aged.claim(tokenOf('x', AGE_HOURS + 1))).rejects.toEqual(tooOld());
    await expect(redis.pexpiretime(fence.fenceName('x'))).resolves.toBe(-1);
  });

  it('says so inside MULTI, where nobody would see the answer', async () => {
    await redis.multi({ pipeline: false });
    await expect(fence.claim(token)).rejects.toEqual(usage(/inside MULTI/));
    await redis.discard();
  });

  it('settles a write whose reply is cut off, and never sends it again, with the option of the docs', async () => {
    const { host, port } = redis.options as { host: string; port: number };
    const link = await Link.open({ host, port });
    const cut = new Redis(link.url, { maxRetriesPerRequest: 0 });
    cut.on('error', () => undefined);
    try {
      await cut.ping();
      link.setMode({ kind: 'hold', direction: 'replies' });
      const written = redisFence(cut).write(token, [['RPUSH', '{9}:log', 'once']]);
      written.catch(() => undefined);
      await eventually(async () => expect(await redis.llen('{9}:log')).toBe(1));
      link.resetConnections();
      await expect(written).rejects.toMatchObject({ name: 'MaxRetriesPerRequestError' });
      link.setMode({ kind: 'pass' });
      await once(cut, 'ready');
      await expect(cut.llen('{9}:log')).resolves.toBe(1);
    } finally {
      cut.disconnect();
      await link.close();
    }
  });
});
