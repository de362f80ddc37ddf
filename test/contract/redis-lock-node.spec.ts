import { afterAll, beforeAll } from '@jest/globals';
import { Redis as Valkey } from 'iovalkey';
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

const ALL = ['batches', 'restart', 'reach', 'forgets'] as const;

lockNodeContract('Redis', () => createRedisHarness(server), ALL);

// A client with the API of ioredis, but none of its code, is a node as well.
const inputOf = ({ url }: RedisServer) => new Valkey(url, { lazyConnect: true });
lockNodeContract('iovalkey', () => createRedisHarness(server, { inputOf }), ALL);
