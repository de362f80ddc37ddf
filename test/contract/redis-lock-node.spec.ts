import { afterAll, beforeAll } from '@jest/globals';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { lockNodeContract } from './lock-node.contract.ts';
import { createRedisHarness } from './redis-harness.ts';

let server: RedisServer;

beforeAll(async () => {
  [server] = (await startRedisServers(1, { appendonly: true })) as [RedisServer];
});

afterAll(async () => {
  await server?.stop();
});

lockNodeContract('Redis', () => createRedisHarness(server), [
  'batches',
  'restart',
  'reach',
  'forgets',
]);
