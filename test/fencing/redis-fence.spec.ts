import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisFence } from '../../lib/fencing/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { CuttingPath } from './support/cutting-path.ts';

describe('redisFence', () => {
  let direct: Redis;
  let redis: Redis;
  let path: CuttingPath;
  let count = 0;
  let key: string;
  useRedisServers(1, {}, ([server]) => {
    direct = new Redis(server!.url);
    return () => direct.disconnect();
  });

  beforeEach(async () => {
    key = `key${(count += 1)}`;
    path = await CuttingPath.open(direct.options.port!);
    redis = new Redis({ port: path.port, retryStrategy: () => 10 });
    redis.on('error', () => undefined);
    await redis.ping();
  });
  afterEach(() => {
    redis.disconnect();
    path.close();
  });

  const token = (value: number) => ({ value, keys: [key], holder: `h${value}` });

  it('runs no write twice when the connection breaks before the reply, and says that it ran', async () => {
    const fence = redisFence(redis);
    await fence.write(token(1), [['INCRBY', `${key}:n`, 1]]);
    path.beforeCut = () => undefined;
    const writes = await Promise.allSettled(
      [1, 2, 3].map(() =>
        fence.write(token(1), [
          ['INCRBY', `${key}:n`, 1],
          ['RPUSH', `${key}:log`, 'x'],
        ]),
      ),
    );
    const lost = { status: 'rejected', reason: { message: expect.stringMatching(/ran once/) } };
    expect(writes).toMatchObject([lost, lost, lost]);
    await expect(direct.get(`${key}:n`)).resolves.toBe('4');
    await expect(direct.llen(`${key}:log`)).resolves.toBe(3);
    await expect(fence.write(token(1), [['INCRBY', `${key}:n`, 1]])).resolves.toEqual([5]);
  });

  it.each([
    ['all', (key: string) => [key, `${key}+`]],
    ['the first', (key: string) => [key]],
    ['another', (key: string) => [`${key}+`]],
  ])(
    'says that a write ran when a newer holder of %s of its keys came before it was sent again',
    async (_of, taken) => {
      const refused: unknown[] = [];
      const fence = redisFence(redis, { onStale: (error) => void refused.push(error) });
      const keys = [key, `${key}+`];
      const newer = { ...token(2), keys: taken(key) };
      path.beforeCut = () => redisFence(direct).write(newer, [['INCRBY', `${key}:n`, 1]]);
      await expect(
        fence.write({ ...token(1), keys }, [['INCRBY', `${key}:n`, 10]]),
      ).rejects.toThrow(/ran once/);
      expect(refused).toEqual([]);
      await expect(direct.get(`${key}:n`)).resolves.toBe('11');
      await expect(fence.write({ ...token(1), keys }, [])).rejects.toMatchObject({
        code: 'STALE_TOKEN',
      });
      expect(refused).toHaveLength(1);
    },
  );

  /** Each of them writes with a token of its own, as another client. */
  const writeAsOthers = async (first: number, last: number): Promise<void> => {
    for (let value = first; value <= last; value += 1) {
      const client = { eval: direct.eval.bind(direct) };
      await redisFence(client).write(token(value), [['INCR', `${key}:n`]]);
    }
  };

  it('does not say that nothing was written where it no longer knows', async () => {
    const refused: unknown[] = [];
    const fence = redisFence(redis, { onStale: (error) => void refused.push(error) });
    path.beforeCut = () => writeAsOthers(2, 40);
    const lost = fence.write(token(1), [['INCR', `${key}:n`]]);
    await expect(lost).rejects.toThrow(/not known/);
    await expect(lost).rejects.not.toHaveProperty('code');
    expect(refused).toEqual([]);
    await expect(direct.get(`${key}:n`)).resolves.toBe('40');
    await expect(fence.write(token(1), [])).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  it.each([
    ['the machine was suspended, and one clock stood still', 0, 5_000, 4_000],
    ['the wall clock was set back', 5_000, -60_000, 4_000],
    ['the clock of Redis runs faster', 10_000, 10_000, 10_009],
    ['the clocks of both are cut to milliseconds', 0, 0, 1],
  ])('does not trust a refusal when %s', async (_name, monotonic, wall, droppedAge) => {
    let passed = { monotonic: 0, wall: 0 };
    const [monotonicNow, wallNow] = [performance.now(), Date.now()];
    const clocks = [
      jest.spyOn(performance, 'now').mockImplementation(() => monotonicNow + passed.monotonic),
      jest.spyOn(Date, 'now').mockImplementation(() => wallNow + passed.wall),
    ];
    const answering = (age: number) => ({
      eval: async () => ((passed = { monotonic, wall }), ['STALE', 1, '9', 'h9', age]),
    });
    try {
      const refused = async (age: number) => {
        passed = { monotonic: 0, wall: 0 };
        return redisFence(answering(age)).write(token(1), [['INCR', `${key}:n`]]);
      };
      await expect(refused(droppedAge)).rejects.toThrow(/not known/);
      await expect(refused(droppedAge + 1_100)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    } finally {
      for (const clock of clocks) clock.mockRestore();
    }
  });

  it('keeps of a client’s writes no more than are under way', async () => {
    const fence = redisFence(redis);
    for (let write = 0; write < 20; write += 1)
      await Promise.all([1, 2].map(() => fence.write(token(write + 1), [['INCR', `${key}:n`]])));
    const fields = await direct.hgetall(fence.fenceName(key));
    expect(Object.keys(fields)).toHaveLength(3);
    expect(JSON.stringify(fields).length).toBeLessThan(150);
  });

  it('costs the server hardly more for thousands of writes of one key at once than for one each, in their order', async () => {
    const fence = redisFence(direct);
    const indices = Array.from({ length: 10_000 }, (_none, index) => index);
    /** Microseconds of the server for each write. */
    const cost = async (keyOf: (index: number) => string): Promise<number> => {
      await direct.config('RESETSTAT');
      const writes = indices.map((index) => {
        const held = keyOf(index);
        return fence.write({ ...token(1), keys: [held] }, [['RPUSH', `{${held}}:n`, index]]);
      });
      await Promise.all(writes);
      const [, microseconds] = /cmdstat_eval:.*usec_per_call=([\d.]+)/.exec(
        await direct.info('commandstats'),
      )!;
      return Number(microseconds);
    };
    const ofOneEach = await cost((index) => `${key}:${index}`);
    expect(await cost(() => key)).toBeLessThan(5 * ofOneEach);
    await expect(direct.lrange(`{${key}}:n`, 0, -1)).resolves.toEqual(indices.map(String));
  });

  it.each([
    ['others', () => direct],
    ['its connection', () => new Redis(direct.options.port!, { lazyConnect: true })],
  ])('writes the bytes that it was given, also where it waits for %s', async (_name, open) => {
    const client = open();
    try {
      const fence = redisFence(client);
      const shared = Buffer.from('0');
      const view = new Uint8Array(shared.buffer, shared.byteOffset, 1);
      const writes = Array.from({ length: 200 }, (_none, index) => {
        shared.write(String(index % 10));
        return fence.write(token(1), [['RPUSH', `${key}:log`, index % 2 === 0 ? shared : view]]);
      });
      shared.write('x');
      await Promise.all(writes);
      const digits = await direct.lrange(`${key}:log`, 0, -1);
      expect(digits.join('')).toBe('0123456789'.repeat(20));
    } finally {
      if (client !== direct) client.disconnect();
    }
  });

  it('runs no write that is sent again after its caller was answered', async () => {
    const sent: Parameters<Redis['eval']>[] = [];
    const client = { eval: (...all: any) => (sent.push(all), (direct.eval as any)(...all)) };
    for (const _ of [1, 2]) await redisFence(client).write(token(1), [['INCR', `${key}:n`]]);
    await expect(direct.eval(...sent[0]!)).resolves.toEqual(['REPEATED']);
    await expect(direct.get(`${key}:n`)).resolves.toBe('2');
  });

  it('keeps what at most 32 clients wrote before the newest token, and for ten minutes', async () => {
    const name = redisFence(direct).fenceName(key);
    await writeAsOthers(1, 40);
    await redisFence(direct).claim(token(41));
    const kept = Object.entries(await direct.hgetall(name)).filter(([field]) =>
      field.startsWith('w:'),
    );
    expect(kept).toHaveLength(32);
    const [[recent], ...others] = kept as [[string, string], ...[string, string][]];
    for (const [field, text] of others)
      await direct.hset(
        name,
        field,
        text.replace(/^\d+/, (time) => String(Number(time) - 600_000)),
      );
    await redisFence(direct).claim(token(42));
    const left = await direct.hkeys(name);
    expect(left.toSorted()).toEqual(['d', 'h', 't', recent]);
  });

  it('refuses a command with more arguments than a script can pass, and writes nothing', async () => {
    const fence = redisFence(redis);
    const many = Array.from({ length: 9_000 }, (_none, index) => index);
    await expect(
      fence.write(token(1), [
        ['SET', `${key}:first`, 'x'],
        ['RPUSH', `${key}:many`, ...many],
      ]),
    ).rejects.toMatchObject({ code: 'FENCED_USAGE', message: expect.stringMatching(/arguments/) });
    await expect(direct.exists(`${key}:first`, fence.fenceName(key))).resolves.toBe(0);
    const most = many.slice(0, 7_000);
    await expect(fence.write(token(1), [['RPUSH', `${key}:many`, ...most]])).resolves.toEqual([
      7_000,
    ]);
  });

  it('runs very many commands in one write, and refuses more than a server takes in one', async () => {
    const fence = redisFence(direct);
    const pushes = (count: number) =>
      Array.from({ length: count }, (_none, index) => ['RPUSH', `${key}:many`, index] as const);
    const replies = await fence.write(token(1), pushes(150_000));
    expect(replies).toHaveLength(150_000);
    expect(replies.at(-1)).toBe(150_000);
    await expect(fence.write(token(1), pushes(250_001))).rejects.toMatchObject({
      code: 'FENCED_USAGE',
      keys: [key],
      message: expect.stringMatching(/^write has .* 1000000\. Send several writes\. Nothing was/),
    });
    await expect(direct.llen(`${key}:many`)).resolves.toBe(150_000);
    await expect(fence.write(token(1), pushes(250_000))).resolves.toHaveLength(250_000);
  });

  it('makes a fence that somebody gave an expiry last again', async () => {
    const fence = redisFence(redis);
    await fence.claim(token(1));
    for (const later of [token(1), token(2)]) {
      await direct.expire(fence.fenceName(key), 100);
      await fence.claim(later);
      await expect(direct.ttl(fence.fenceName(key))).resolves.toBe(-1);
    }
    // Also by a call that is refused: nothing newer may come before the expiry.
    await direct.expire(fence.fenceName(key), 100);
    await expect(fence.claim(token(1))).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    await expect(direct.ttl(fence.fenceName(key))).resolves.toBe(-1);
  });
});
