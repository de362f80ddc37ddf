import { afterEach, describe, expect, it } from '@jest/globals';
import { existsSync } from 'node:fs';
import { Redis } from 'ioredis';
import { type RedisServer, findRedis, startRedisServers } from './index.ts';
import { respRequest } from './resp-request.ts';
import { useRedisServers } from './use-redis-servers.ts';

/** One command over a connection of its own; rejects when nothing answers within a second. */
function request(server: RedisServer, ...command: string[]): Promise<string> {
  const { hostname: host, port, username, password } = new URL(server.url);
  const user = password ? { name: username, password: decodeURIComponent(password) } : undefined;
  return respRequest({ address: { host, port: Number(port) }, user }, command, 1000);
}

describe('started Redis servers', () => {
  const servers = useRedisServers(5, { own: true });

  it('started servers are independent of each other and persist nothing', async () => {
    const [first, ...others] = servers;
    await request(first!, 'SET', 'name', 'first');
    expect(await request(first!, 'GET', 'name')).toBe('first');
    for (const other of others) expect(await request(other, 'EXISTS', 'name')).toBe('0');
    const information = await request(first!, 'INFO', 'persistence');
    expect(information).toMatch(/aof_enabled:0/);
  });

  it('a started server answers ioredis at its url', async () => {
    const client = new Redis(servers[1]!.url);
    expect(await client.ping()).toBe('PONG');
    client.disconnect();
  });

  it('a frozen server answers nothing, keeps its connections, and goes on when resumed', async () => {
    const server = servers[2]!;
    await request(server, 'SET', 'kept', 'yes');
    await server.freeze();
    expect(server.isRunning).toBe(true);
    await expect(request(server, 'GET', 'kept')).rejects.toThrow('no answer within 1000 ms');
    await server.resume();
    expect(await request(server, 'GET', 'kept')).toBe('yes');
  });

  it('a killed server comes back empty on the same port', async () => {
    const server = servers[3]!;
    const { url } = server;
    await request(server, 'SET', 'lost', 'yes');
    await server.kill();
    expect(server.isRunning).toBe(false);
    await expect(request(server, 'PING')).rejects.toThrow(/ECONN|closed|no answer/);
    await server.restart();
    expect(server.isRunning).toBe(true);
    expect(server.url).toBe(url);
    expect(await request(server, 'EXISTS', 'lost')).toBe('0');
  });

  it('a frozen server can be killed and restarted', async () => {
    const server = servers[4]!;
    await server.freeze();
    await server.kill();
    expect(server.isRunning).toBe(false);
    await server.restart();
    await server.freeze();
    await server.restart();
    expect(await request(server, 'PING')).toBe('PONG');
  });
});

describe('a server started with options', () => {
  let started: RedisServer[] = [];
  afterEach(async () => {
    await Promise.all(started.map((server) => server.stop()));
    started = [];
  });

  it('keeps its append-only file over a kill and over an orderly restart, when asked', async () => {
    started = await startRedisServers(1, { appendonly: true });
    const server = started[0]!;
    await request(server, 'SET', 'kept', 'yes');
    await server.kill();
    await server.restart({ keepData: true });
    expect(await request(server, 'GET', 'kept')).toBe('yes');
    await server.restart({ keepData: true });
    expect(await request(server, 'GET', 'kept')).toBe('yes');
    await server.restart();
    expect(await request(server, 'EXISTS', 'kept')).toBe('0');
  });

  it('demands its password, which the url carries', async () => {
    started = await startRedisServers(1, { requirepass: 'p@ss word' });
    const { host, port } = started[0]!;
    const client = new Redis(started[0]!.url);
    expect(await client.ping()).toBe('PONG');
    client.disconnect();
    await expect(respRequest({ address: { host, port } }, ['PING'])).rejects.toThrow('NOAUTH');
  });

  it('accepts only the users of its ACL', async () => {
    started = await startRedisServers(1, {
      acl: ['user default off', 'user locker on >secret ~lock:* +ping +set +info'],
      user: { name: 'locker', password: 'secret' },
    });
    expect(await request(started[0]!, 'SET', 'lock:1', 'x')).toBe('OK');
    await expect(request(started[0]!, 'SET', 'other', 'x')).rejects.toThrow('NOPERM');
  });

  it('accepts further arguments', async () => {
    started = await startRedisServers(1, { args: ['--maxmemory-policy', 'allkeys-lru'] });
    const information = await request(started[0]!, 'INFO', 'memory');
    expect(information).toContain('maxmemory_policy:allkeys-lru');
  });

  it('fails with the message of the server when it does not start', async () => {
    const starting = startRedisServers(2, { args: ['--no-such-setting', 'x'] });
    await expect(starting).rejects.toThrow(/no-such-setting/);
  });
});

describe('a stopped server', () => {
  it('a stopped server is gone, cannot be used again, and may be stopped twice', async () => {
    const [server] = await startRedisServers(1, { own: true });
    const { canFault } = await findRedis({ own: true });
    expect(server!.canFault).toBe(canFault);
    const processFolder = `/proc/${server!.pid ?? 'of a container'}`;
    await Promise.all([server!.stop(), server!.stop()]);
    await server!.stop();
    expect(server!.isRunning).toBe(false);
    expect(existsSync(processFolder)).toBe(false);
    await expect(server!.freeze()).rejects.toThrow('not running');
    await expect(server!.restart()).rejects.toThrow('stopped for good');
  });
});
