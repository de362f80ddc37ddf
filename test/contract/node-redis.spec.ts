import { afterAll, beforeAll } from '@jest/globals';
import { clientOf } from '../support/clients.ts';
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

const inputOf = ({ url }: RedisServer) => clientOf(url, 'node-redis');
const abilities = ['batches', 'restart', 'reach', 'forgets'] as const;
lockNodeContract('node-redis', () => createRedisHarness(server, { inputOf }), abilities);
