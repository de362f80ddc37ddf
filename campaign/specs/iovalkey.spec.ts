import { afterAll, beforeAll } from '@jest/globals';
import { Redis as Valkey } from 'iovalkey';
import { lockNodeContract } from '../../test/contract/lock-node.contract.ts';
import { createRedisHarness } from '../../test/contract/redis-harness.ts';
import { startRedisServers, type RedisServer } from '../../test/support/redis-servers/index.ts';

let server: RedisServer;

beforeAll(async () => {
  [server] = (await startRedisServers(1, { appendonly: true })) as [RedisServer];
});

afterAll(async () => {
  await server?.stop();
});

// A fork of ioredis, with the same API: it is a node as well.
const inputOf = ({ url }: RedisServer) => new Valkey(url, { lazyConnect: true });
const ALL = ['batches', 'restart', 'reach', 'forgets'] as const;
lockNodeContract('iovalkey', () => createRedisHarness(server, { inputOf }), ALL);
