import { Redis } from 'ioredis';
import type { RedisNodeInput } from '../../lib/redis/client/client-source.ts';
import { createRedisNode } from '../support/clients.ts';
import type { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import type { ContractHarness } from './contract-harness.ts';
import { lacks } from './lock-node.contract.ts';
import { serverData } from './server-data.ts';

let harnesses = 0;
const offsetsMs = new WeakMap<RedisServer, number>();

/** The contract's harness around a real server; it must have been started with an append-only file. */
export async function createRedisHarness(
  server: RedisServer,
  {
    hasMovableClock = false,
    inputOf = ({ url }: RedisServer): RedisNodeInput => url,
  }: { hasMovableClock?: boolean; inputOf?: (server: RedisServer) => RedisNodeInput } = {},
): Promise<ContractHarness> {
  const prefix = `contract-${++harnesses}:`;
  const nodes: RedisLockNode[] = [];
  const admin = new Redis(server.url, { maxRetriesPerRequest: 3, retryStrategy: () => 20 });
  admin.on('error', () => undefined); // a restart breaks it; commands report their own errors
  return {
    ...serverData(prefix, (name, ...values) => admin.call(name, values)),
    createNode() {
      const node = createRedisNode(inputOf(server), { keyPrefix: prefix });
      nodes.push(node);
      return node;
    },
    async flush() {
      await admin.flushall();
    },
    async forgetScripts() {
      await admin.script('FLUSH');
    },
    restart: (options) => server.restart(options),
    async advance(durationMs) {
      if (!hasMovableClock) lacks('clock');
      const offsetMs = (offsetsMs.get(server) ?? 0) + durationMs;
      offsetsMs.set(server, offsetMs);
      await server.moveClock(offsetMs);
    },
    async close() {
      await Promise.all(nodes.map((node) => node.close()));
      admin.disconnect();
    },
  };
}
