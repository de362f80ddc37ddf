import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type RedisServer, startRedisServers } from '../support/redis-servers/index.ts';

describe('startRedisServers', () => {
  let servers: RedisServer[];
  beforeAll(async () => {
    servers = await startRedisServers(5);
  });
  afterAll(() => Promise.all(servers.map((server) => server.stop())));

  it('starts five independent servers', () => {
    expect(new Set(servers.map((server) => server.url)).size).toBe(5);
    expect(servers.every((server) => server.isRunning)).toBe(true);
  });
});
