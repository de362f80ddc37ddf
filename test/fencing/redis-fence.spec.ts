import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisFence } from '../../lib/fencing/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

/** A way to the server that cuts the connection instead of passing its next answer on. */
class CuttingPath {
  cutsNext = false;
  private constructor(
    private readonly server: Server,
    readonly port: number,
  ) {}

  static async open(port: number): Promise<CuttingPath> {
    const server = createServer((client) => {
      const upstream = connect(port, '127.0.0.1');
      const end = (): void => {
        client.destroy();
        upstream.destroy();
      };
      client.on('error', end).on('close', end);
      upstream.on('error', end).on('close', end);
      client.on('data', (bytes) => upstream.write(bytes));
      upstream.on('data', (bytes) => {
        if (!path.cutsNext) return client.write(bytes);
        path.cutsNext = false;
        return end();
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const path = new CuttingPath(server, (server.address() as AddressInfo).port);
    return path;
  }

  close(): void {
    this.server.close();
  }
}

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
    path.cutsNext = true;
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

  it('keeps of a holder’s writes no more than are under way, and nothing of an older holder’s', async () => {
    const fence = redisFence(redis);
    for (let write = 0; write < 20; write += 1)
      await Promise.all([1, 2].map(() => fence.write(token(1), [['INCR', `${key}:n`]])));
    const fields = await direct.hgetall(fence.fenceName(key));
    expect(Object.keys(fields)).toHaveLength(3);
    expect(JSON.stringify(fields).length).toBeLessThan(150);
    await fence.claim(token(2));
    await expect(direct.hgetall(fence.fenceName(key))).resolves.toEqual({ t: '2', h: 'h2' });
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

  it('makes a fence that somebody gave an expiry last again', async () => {
    const fence = redisFence(redis);
    await fence.claim(token(1));
    for (const later of [token(1), token(2)]) {
      await direct.expire(fence.fenceName(key), 100);
      await fence.claim(later);
      await expect(direct.ttl(fence.fenceName(key))).resolves.toBe(-1);
    }
  });
});
