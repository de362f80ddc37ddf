import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';

const ROOM = '--initial-old-space-size=1000';

let servers: RedisServer[] = [];

beforeAll(async () => {
  servers = await startRedisServers(1);
});

afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()));
});

describe('a lock that is over', () => {
  // With a Map or a Set through which every lock passes it was 450 to 2,100 bytes.
  // One that has waited in line is old, and so is the lock that its promise has. With a literal for its encoded request, and its
  // try kept after its end, it was 6,300 bytes.
  it.each([
    [64, 300],
    [4_096, 4_800],
  ])('leaves no garbage that only a full collection finds, callers: %i', async (callers, limit) => {
    const script = new URL('garbage.ts', import.meta.url).pathname;
    const loader = ['--import', './test/support/typescript-loader.mjs'];
    const urls = servers.map(({ url }) => url);
    const args = ['--expose-gc', ROOM, ...loader, script, String(callers), ...urls];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(Number(stdout)).toBeGreaterThan(-100);
    expect(Number(stdout)).toBeLessThan(limit);
  });
});
