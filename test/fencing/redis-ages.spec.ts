import { beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisFence, type RedisFence } from '../../lib/fencing/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

const HOUR = 3_600_000;
const AGE = { maxAge: '30d' } as const;
const AGE_HOURS = 30 * 24;

const timeOf = (ageHours: number): number => (Date.now() - ageHours * HOUR) * 1_000;
const tokenOf = (key: string, ageHours: number, holder = `${ageHours} hours old`) => ({
  value: timeOf(ageHours),
  keys: [key],
  holder,
});

const tooOld = expect.objectContaining({
  code: 'STALE_TOKEN',
  currentHolder: '',
  currentToken: expect.stringMatching(new RegExp(`^${String(timeOf(AGE_HOURS)).slice(0, 8)}`)),
  message: expect.stringMatching(/oldest that the maxAge/),
});

describe('redisFence with a maxAge', () => {
  let redis: Redis;
  let fence: RedisFence;
  let plain: RedisFence;
  useRedisServers(1, { own: true }, ([server]) => {
    redis = new Redis(server!.url);
    return () => redis.disconnect();
  });
  beforeEach(async () => {
    await redis.flushall();
    fence = redisFence(redis, AGE);
    plain = redisFence(redis);
  });

  const write = (token: ReturnType<typeof tokenOf>, by: RedisFence = fence) =>
    by.write(token, [['RPUSH', 'log', token.holder]]);
  const expiryOf = (key: string) => redis.pexpiretime(fence.fenceName(key));
  const LASTS_MS = (AGE_HOURS + 1) * HOUR;

  it('refuses what is older, whether the key has a fence or not, and writes nothing', async () => {
    const own = tokenOf('x', AGE_HOURS + 0.1);
    await plain.claim(own);
    for (const old of [own, tokenOf('y', AGE_HOURS + 0.1)]) {
      await expect(fence.claim(old)).rejects.toEqual(tooOld);
      await expect(write(old)).rejects.toEqual(tooOld);
    }
    await expect(redis.exists('log', fence.fenceName('y'))).resolves.toBe(0);
    await fence.claim(tokenOf('y', AGE_HOURS - 0.1));
    await expect(write(tokenOf('y', AGE_HOURS - 0.2))).resolves.toEqual([1]);
    await write(tokenOf('z', 10 * AGE_HOURS), plain);
  });

  it('lets a fence expire an hour after its token is too old', async () => {
    for (const hours of [AGE_HOURS - 1, 5, 0]) {
      const token = tokenOf('x', hours);
      await fence.claim(token);
      await expect(expiryOf('x')).resolves.toBe(token.value / 1_000 + LASTS_MS);
      await write(token);
      await expect(expiryOf('x')).resolves.toBe(token.value / 1_000 + LASTS_MS);
    }
  });

  it('sets back what somebody did to the expiry, also where it refuses', async () => {
    const newer = tokenOf('x', 0);
    await fence.claim(newer);
    for (const call of [
      () => fence.claim(newer),
      () => fence.claim(tokenOf('x', 1)).catch(() => undefined),
      () => fence.claim(tokenOf('x', AGE_HOURS + 1)).catch(() => undefined),
    ]) {
      await redis.expire(fence.fenceName('x'), 100);
      await call();
      await expect(expiryOf('x')).resolves.toBe(newer.value / 1_000 + LASTS_MS);
    }
    await plain.claim(newer);
    await expect(expiryOf('x')).resolves.toBe(-1);
  });

  it('refuses the token of a counter, which has no age, and lets no counter expire', async () => {
    const counted = { value: 7, keys: ['x'], holder: 'counted' };
    await plain.claim(counted);
    const refusal = { code: 'FENCED_USAGE', message: expect.stringMatching(/7 is no time/) };
    await expect(fence.claim(counted)).rejects.toMatchObject(refusal);
    await expect(fence.write(counted, [])).rejects.toMatchObject(refusal);
    await expect(fence.claim(tokenOf('x', AGE_HOURS + 1))).rejects.toEqual(tooOld);
    await expect(expiryOf('x')).resolves.toBe(-1);
  });

  it('does not say of a write that was sent an hour ago that it did not run', async () => {
    const replies: unknown[] = [];
    const client = {
      eval: async (...all: [string, number, ...unknown[]]) => {
        const reply = await (redis.eval as (...all: unknown[]) => Promise<unknown>)(...all);
        replies.push(reply);
        return reply;
      },
    };
    const watched = redisFence(client, AGE);
    await expect(write(tokenOf('x', AGE_HOURS + 1), watched)).rejects.toEqual(tooOld);
    await fence.claim(tokenOf('x', 0));
    await expect(write(tokenOf('x', 1), watched)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    for (const reply of replies) expect(reply).toMatchObject(['STALE', 1, {}, {}, HOUR]);
  });

  it.each([
    [0, true],
    [AGE_HOURS + 2, false],
  ])('keeps what it knows when the token is %d hours old: %p', async (hours, isKept) => {
    await plain.claim(tokenOf('x', hours));
    await expect(fence.claim(tokenOf('x', AGE_HOURS + 2.1))).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
    await expect(redis.exists(fence.fenceName('x'))).resolves.toBe(Number(isKept));
    await expect(fence.claim(tokenOf('x', AGE_HOURS + 0.1))).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
  });

  it('says so inside MULTI, where nobody would see the answer', async () => {
    await redis.multi({ pipeline: false });
    try {
      const inMulti = { code: 'FENCED_USAGE', message: expect.stringContaining('inside MULTI') };
      await expect(write(tokenOf('idle', 0))).rejects.toMatchObject(inMulti);
      await expect(fence.claim(tokenOf('idle', 0))).rejects.toMatchObject(inMulti);
    } finally {
      await redis.discard();
    }
  });

  it.each(['59m', 1_000, null])('refuses %p for the age', (maxAge) => {
    expect(() => redisFence(redis, { maxAge: maxAge as never })).toThrow(
      expect.objectContaining({ option: 'maxAge' }),
    );
  });
});
