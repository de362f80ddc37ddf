import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Command, Redis } from 'ioredis';
import { encode, sendScript } from '../../../lib/redis/commands/script-command.ts';
import type { ScriptArguments } from '../../../lib/redis/commands/script-arguments.ts';
import { startRedisServers } from '../../support/redis-servers/index.ts';
import type { RedisServer } from '../../support/redis-servers/index.ts';

const ECHO = 'return ARGV';
let server: RedisServer;
let client: Redis;
let sha1: string;

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
  client = new Redis(server.url, { enableOfflineQueue: true, lazyConnect: true });
  await client.connect();
  sha1 = (await client.script('LOAD', ECHO)) as string;
});
afterAll(async () => {
  client.disconnect();
  await server.stop();
});

function send(args: ScriptArguments): Promise<unknown> {
  return new Promise((resolve, reject) =>
    sendScript(client, args, (error, reply) => (error ? reject(error) : resolve(reply))),
  );
}

describe('a script command', () => {
  it.each([
    ['plain', ['abc', 1, 'key', 'value']],
    ['empty and long', ['abc', 1, '', 'x'.repeat(100_000)]],
    ['of several bytes a character', ['abc', 1, 'schlüssel:日本:🔒', 'é\r\n$3\r\n']],
  ])('is encoded as ioredis encodes it: %s', (_name, args) => {
    expect(encode(args as ScriptArguments)).toBe(new Command('evalsha', args).toWritable(null!));
  });

  it('settles with texts, as every command does', async () => {
    expect(await send([sha1, 0, 'schlüssel:日本', ''])).toEqual(['schlüssel:日本', '']);
  });

  it('keeps its place among other commands of the connection', async () => {
    const replies = await Promise.all([
      client.ping(),
      send([sha1, 0, 'first']),
      client.echo('between'),
      send([sha1, 0, 'second']),
    ]);
    expect(replies).toEqual(['PONG', ['first'], 'between', ['second']]);
  });

  it('rejects with the error of the server', async () => {
    await expect(send(['0'.repeat(40), 0])).rejects.toThrow('NOSCRIPT');
  });

  it('rejects when the connection is gone, before and after it was sent', async () => {
    const other = new Redis(server.url, {
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
    });
    other.on('error', () => undefined);
    await new Promise((resolve) => other.once('ready', resolve));
    const outcome = () =>
      new Promise((resolve) => sendScript(other, [sha1, 0], (error) => resolve(error)));
    await server.freeze();
    const inFlight = outcome();
    const ended = new Promise((resolve) => other.once('end', resolve));
    (other as unknown as { stream: { destroy(): void } }).stream.destroy();
    await server.resume();
    expect(await inFlight).toBeInstanceOf(Error);
    await ended;
    expect(await outcome()).toBeInstanceOf(Error);
  });

  it('goes the ordinary way on a client of another copy of ioredis', async () => {
    const calls: unknown[] = [];
    const foreign = {
      call: (...args: unknown[]) => {
        calls.push(args);
        return Promise.resolve('reply');
      },
    };
    const reply = await new Promise((resolve) =>
      sendScript(foreign as unknown as Redis, ['sha', 0], (_error, value) => resolve(value)),
    );
    expect(reply).toBe('reply');
    expect(calls).toEqual([['evalsha', ['sha', 0]]]);
  });
});
