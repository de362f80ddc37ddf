import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisFence, type RedisFence } from '../../lib/fencing/index.ts';
import { pruneRedisFence } from '../../lib/fencing/upkeep/prune-redis-fence.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { ageRecords } from './support/aged-records.ts';
import { CuttingPath } from './support/cutting-path.ts';

const DAY = 86_400_000;
const AGE = { olderThan: '30d' } as const;

const timeOf = (ageDays: number): number => (Date.now() - ageDays * DAY) * 1_000;
const tokenOf = (key: string, ageDays: number, holder = `${ageDays} days old`) => ({
  value: timeOf(ageDays),
  keys: [key],
  holder,
});

const stale = (floorDays: number) =>
  expect.objectContaining({
    code: 'STALE_TOKEN',
    currentHolder: '',
    currentToken: expect.stringMatching(new RegExp(`^${String(timeOf(floorDays)).slice(0, 7)}`)),
  });

describe('redisFence.prune', () => {
  let redis: Redis;
  let fence: RedisFence;
  useRedisServers(1, { own: true }, ([server]) => {
    redis = new Redis(server!.url);
    return () => redis.disconnect();
  });
  beforeEach(async () => {
    await redis.flushall();
    fence = redisFence(redis);
  });

  const write = (token: ReturnType<typeof tokenOf>, by: RedisFence = fence) =>
    by.write(token, [['RPUSH', 'log', token.holder]]);

  it('refuses every token below the floor, and admits the others of keys that it deleted', async () => {
    const idle = Array.from({ length: 2_300 }, (_none, index) => `idle:ä${index}`);
    for (const key of idle) void fence.claim(tokenOf(key, 40));
    await write(tokenOf('used', 2));
    await expect(fence.prune(AGE)).resolves.toBe(idle.length);
    await expect(fence.prune(AGE)).resolves.toBe(0);
    const [first, last] = [idle[0]!, idle.at(-1)!];
    for (const again of [tokenOf(first, 40), tokenOf(first, 31), tokenOf(last, 31)]) {
      await expect(fence.claim(again)).rejects.toEqual(stale(30));
      await expect(write(again)).rejects.toEqual(stale(30));
    }
    for (const newer of [tokenOf(first, 29), tokenOf(first, 0), tokenOf('used', 1)]) {
      await fence.claim(newer);
      await expect(write(newer)).resolves.toHaveLength(1);
    }
    await expect(fence.claim(tokenOf('used', 3))).rejects.toMatchObject({
      currentHolder: '1 days old',
    });
  });

  it('admits the token that is the floor, and none below it', async () => {
    await fence.claim(tokenOf('x', 40));
    await fence.prune(AGE);
    const [name] = await redis.keys('*floor*');
    const floor = Number(await redis.get(name!));
    await expect(fence.claim({ value: floor - 1, keys: ['x'], holder: 'x' })).rejects.toMatchObject(
      { code: 'STALE_TOKEN', key: 'x', currentToken: String(floor), currentHolder: '' },
    );
    await fence.claim({ value: floor, keys: ['x'], holder: 'x' });
  });

  it('refuses all keys of a call where one of them is below its floor, and writes nothing', async () => {
    await fence.claim(tokenOf('pruned', 40));
    await fence.prune(AGE);
    const both = { ...tokenOf('new', 35), keys: ['a', 'new', 'pruned'] };
    await expect(write(both)).rejects.toMatchObject({ key: 'pruned', currentHolder: '' });
    await expect(redis.keys('*')).resolves.toHaveLength(1);
  });

  it('says which number refuses, also to a write, where a floor is ahead of the clock', async () => {
    await fence.claim(tokenOf('idle', 40));
    await fence.prune(AGE);
    const [floor] = await redis.keys('fence:#floor:*');
    const ahead = String(timeOf(-5));
    await redis.set(floor!, ahead);
    await expect(write(tokenOf('idle', 0))).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      currentToken: ahead,
      currentHolder: '',
    });
  });

  it.each(['', 'abc', '-5', '1e30', '12:34:56', ' 12'])(
    'names a floor that somebody spoilt, and lets nothing pass: %j',
    async (spoilt) => {
      await fence.claim(tokenOf('idle', 40));
      await fence.prune(AGE);
      const [floor] = await redis.keys('fence:#floor:*');
      await redis.set(floor!, spoilt);
      const named = `The floor ${floor} is no number. Set it to one of a day ago.`;
      await expect(write(tokenOf('idle', 0))).rejects.toThrow(named);
      await expect(fence.claim(tokenOf('idle', 0))).rejects.toThrow(named);
      expect(await redis.exists('log')).toBe(0);
    },
  );

  it('is refused inside MULTI, as are writes: nobody would see their answer', async () => {
    await redis.multi({ pipeline: false });
    try {
      const inMulti = { code: 'FENCED_USAGE', message: expect.stringContaining('inside MULTI') };
      await expect(write(tokenOf('idle', 0))).rejects.toMatchObject(inMulti);
      await expect(fence.claim(tokenOf('idle', 0))).rejects.toMatchObject(inMulti);
      await expect(fence.prune(AGE)).rejects.toMatchObject(inMulti);
    } finally {
      await redis.discard();
    }
  });

  it('raises floors only', async () => {
    await fence.claim(tokenOf('x', 40));
    await fence.prune(AGE);
    await redis.hset(fence.fenceName('x'), 't', timeOf(50), 'h', 'restored');
    await expect(fence.prune({ olderThan: '45d' })).resolves.toBe(1);
    await expect(fence.claim(tokenOf('x', 31))).rejects.toEqual(stale(30));
  });

  it.each(['23h', 1_000, '30', 'never', undefined, null, ['2d'], NaN, Infinity, 1e300, 2 ** 53])(
    'refuses the age %p',
    async (age) => {
      const refusal = expect.objectContaining({ option: 'olderThan' });
      await expect(fence.prune({ olderThan: age as never })).rejects.toEqual(refusal);
      await expect((fence as any).prune()).rejects.toEqual(refusal);
    },
  );

  it.each(['99999d', 1e15] as const)('finds nothing as old as %p', async (olderThan) => {
    await fence.claim(tokenOf('x', 0));
    await expect(fence.prune({ olderThan })).resolves.toBe(0);
  });

  it.each(['counted', 'seat:{12A}', '{x}', '#{x}', '#floor:{x}'])(
    'refuses the token of a counter before it deletes anything, and names the key %p',
    async (key) => {
      for (let index = 0; index < 600; index += 1) void fence.claim(tokenOf(`idle${index}`, 40));
      await fence.claim({ value: 7, keys: [key], holder: 'counted' });
      const before = await redis.dbsize();
      await expect(fence.prune(AGE)).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        message: `The fence 'fence:' can't be pruned: its key '${key}' has the token of a counter, which tells no age. Prune only what the quorum numbers. Nothing was deleted.`,
      });
      await expect(redis.dbsize()).resolves.toBe(before);
    },
  );

  it.each([
    ['ahead of', 5, 30],
    ['behind', -5, 35],
  ])(
    'goes by the clock that is behind, when that of the process is %s it',
    async (_is, by, age) => {
      await fence.claim(tokenOf('x', 40));
      const now = Date.now();
      const clock = jest.spyOn(Date, 'now').mockReturnValue(now + by * DAY);
      try {
        await expect(fence.prune(AGE)).resolves.toBe(1);
      } finally {
        clock.mockRestore();
      }
      await expect(fence.claim(tokenOf('x', 40))).rejects.toEqual(stale(age));
    },
  );

  it('counts each key once where two prune at the same time', async () => {
    for (let index = 0; index < 600; index += 1) void fence.claim(tokenOf(`idle${index}`, 40));
    const pruned = await Promise.all([fence.prune(AGE), fence.prune({ olderThan: '31d' })]);
    expect(pruned[0] + pruned[1]).toBe(600);
  });

  it('leaves a fence that was written under in the last ten minutes', async () => {
    await write(tokenOf('x', 40));
    await ageRecords(redis, 590_000);
    await expect(fence.prune(AGE)).resolves.toBe(0);
    await write(tokenOf('x', 39));
    await ageRecords(redis, 11_000);
    // The writer wrote again.
    await expect(fence.prune(AGE)).resolves.toBe(0);
    await ageRecords(redis, 590_000);
    await expect(fence.prune(AGE)).resolves.toBe(1);
  });

  describe('beside writes that are sent again', () => {
    let path: CuttingPath;
    let cut: Redis;
    beforeEach(async () => {
      path = await CuttingPath.open(redis.options.port!);
      cut = new Redis({ port: path.port, retryStrategy: () => 10 });
      cut.on('error', () => undefined);
      await cut.ping();
    });
    afterEach(() => {
      cut.disconnect();
      path.close();
    });

    const unknown = expect.objectContaining({ message: expect.stringMatching(/not known/) });
    const forget = async () => expect(await pruneRedisFence(redis, 'fence:', AGE, -1)).toBe(1);

    it.each([
      ['', () => undefined],
      [' and a newer holder came', () => redisFence(redis).claim(tokenOf('x', 0))],
      [' and a newer holder wrote', () => write(tokenOf('x', 0), redisFence(redis))],
    ])('does not call a write stale that ran before it was pruned%s', async (_what, then) => {
      const refused: unknown[] = [];
      const fence = redisFence(cut, { onStale: (error) => void refused.push(error) });
      path.beforeCut = async () => {
        await forget();
        await then();
      };
      const lost = write(tokenOf('x', 40), fence);
      await expect(lost).rejects.toEqual(unknown);
      await expect(lost).rejects.not.toHaveProperty('code');
      const log = await redis.lrange('log', 0, -1);
      expect(log.filter((each) => each === '40 days old')).toHaveLength(1);
      expect(refused).toEqual([]);
    });

    it('says that it ran where its fence is still there', async () => {
      const fence = redisFence(cut);
      path.beforeCut = () => expect(redisFence(redis).prune(AGE)).resolves.toBe(0);
      await expect(write(tokenOf('x', 40), fence)).rejects.toThrow(/ran once/);
    });

    it('calls a write stale that was sent after the newest record that went', async () => {
      await write(tokenOf('x', 40));
      await ageRecords(redis);
      await fence.prune(AGE);
      await expect(write(tokenOf('x', 39))).rejects.toEqual(stale(30));
      await fence.claim(tokenOf('x', 0));
      await expect(write(tokenOf('x', 1))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    });
  });

  it('makes a floor that somebody gave an expiry last again', async () => {
    await fence.claim(tokenOf('x', 40));
    await fence.prune(AGE);
    const [floor] = await redis.keys('*floor*');
    await redis.expire(floor!, 100);
    await expect(fence.claim(tokenOf('x', 39))).rejects.toEqual(stale(30));
    await expect(redis.ttl(floor!)).resolves.toBe(-1);
    await fence.claim(tokenOf('x', 29));
    await redis.expire(floor!, 100);
    await expect(fence.prune({ olderThan: '28d' })).resolves.toBe(1);
    await expect(redis.ttl(floor!)).resolves.toBe(-1);
  });

  it('prunes a server that has no memory left', async () => {
    for (let index = 0; index < 600; index += 1) void fence.claim(tokenOf(`idle${index}`, 40));
    await redis.config('SET', 'maxmemory', 1);
    try {
      await expect(fence.claim(tokenOf('more', 0))).rejects.toThrow(/OOM/);
      await expect(fence.prune(AGE)).resolves.toBe(600);
    } finally {
      await redis.config('SET', 'maxmemory', 0);
    }
    await expect(fence.claim(tokenOf('idle0', 40))).rejects.toEqual(stale(30));
  });

  it('has one small floor at most for each hash slot', async () => {
    for (let index = 0; index < 40_000; index += 1) {
      const claimed = fence.claim(tokenOf(`order:${index}`, 40));
      if (index % 5_000 === 0) await claimed;
    }
    await expect(fence.prune(AGE)).resolves.toBe(40_000);
    const floors = await redis.dbsize();
    expect(floors).toBeGreaterThan(10_000);
    expect(floors).toBeLessThanOrEqual(16_384);
    for (const name of (await redis.keys('*')).slice(0, 50))
      await expect(redis.memory('USAGE', name)).resolves.toBeLessThanOrEqual(96);
  }, 60_000);

  it('has no floor with the name of a fence', async () => {
    const keys = ['x', '{x}', '#{x}', 'floor:{x}', '#floor:{x}', '##floor:{x}', '#floor:x', 'a{x}'];
    const names = keys.map((key) => fence.fenceName(key));
    expect(new Set(names).size).toBe(keys.length);
    expect(names).not.toContainEqual(expect.stringMatching(/^fence:#floor:\{[^{}]+\}$/));
    for (const key of keys) await fence.claim(tokenOf(key, 40));
    await expect(fence.prune(AGE)).resolves.toBe(keys.length);
    for (const key of keys) await expect(fence.claim(tokenOf(key, 35))).rejects.toEqual(stale(30));
    for (const name of await redis.keys('*')) {
      const [, own] = /^fence:(#floor:\{[^{}]+\})$/.exec(name)!;
      await fence.claim(tokenOf(own!, 29));
      await expect(redis.type(name)).resolves.toBe('string');
    }
  });

  it.each(['a*[b]?\\:', '', 'ключ ', 'a-^:'])(
    'takes its own fences only under the prefix %p',
    async (keyPrefix) => {
      const own = redisFence(redis, { keyPrefix });
      const other = redisFence(redis, { keyPrefix: 'ab\\b:' });
      for (const each of [own, other]) await each.claim(tokenOf('seat:{1}', 40));
      await redis.set('{a string}', 'x');
      await redis.hset('{a hash}', 't', timeOf(40), 'h', 'x', 'name', 'x');
      await redis.hset('{another hash}', 't', 'x', 'h', 'x');
      await redis.rpush('{a list}', 'x');
      if (keyPrefix === '') await redis.del(other.fenceName('seat:{1}'));
      await expect(own.prune(AGE)).resolves.toBe(1);
      await expect(own.claim(tokenOf('seat:{1}', 35))).rejects.toEqual(stale(30));
      const left = await redis.exists('{a string}', '{a hash}', '{another hash}', '{a list}');
      expect(left).toBe(4);
      await other.claim(tokenOf('seat:{1}', 35));
    },
  );

  it('works with the prefix that a client puts in front of all keys', async () => {
    for (const keyPrefix of ['app[1]*:', Buffer.from('bytes:')]) {
      const client = redis.duplicate({ keyPrefix } as { keyPrefix: string });
      try {
        const prefixed = redisFence(client);
        await prefixed.claim(tokenOf('seat:{1}', 40));
        await redisFence(redis, { keyPrefix: 'fence:' }).claim(tokenOf('seat:{1}', 40));
        await expect(prefixed.prune(AGE)).resolves.toBe(1);
        await expect(prefixed.claim(tokenOf('seat:{1}', 35))).rejects.toEqual(stale(30));
        await expect(redis.exists('fence:seat:{1}')).resolves.toBe(1);
        const whole = redisFence(redis, { keyPrefix: `${String(keyPrefix)}fence:` });
        await expect(whole.claim(tokenOf('seat:{1}', 35))).rejects.toEqual(stale(30));
      } finally {
        client.disconnect();
      }
    }
  });

  it('says so when the client cannot list keys', async () => {
    const client = { eval: redis.eval.bind(redis) };
    await expect(redisFence(client as never).prune(AGE)).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      message: expect.stringMatching(/client has no scan.*Nothing was deleted/),
    });
  });

  it('works with a client that gives numbers as texts', async () => {
    const client = redis.duplicate({ stringNumbers: true } as object);
    try {
      for (const key of ['a', 'b']) await fence.claim(tokenOf(key, 40));
      await expect(redisFence(client).prune(AGE)).resolves.toBe(2);
    } finally {
      client.disconnect();
    }
  });
});
