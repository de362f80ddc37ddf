import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { RedisOptions } from 'ioredis';
import type * as NodeRedis from 'redis';
import { REDLOCK_DEFAULTS } from '../../lib/core/options/options.ts';
import { ClientSource } from '../../lib/redis/client/client-source.ts';
import type { ClientSourceOptions, RedisNodeInput } from '../../lib/redis/client/client-source.ts';
import { isOfNodeRedis, NodeRedisSource } from '../../lib/redis/node-redis/node-redis-source.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import type { WireSource } from '../../lib/redis/wire.ts';

// Loaded where it is used: that takes longer than most specs.
const nodeRedis = () =>
  createRequire(join(process.cwd(), 'package.json'))('redis') as typeof NodeRedis;

/** A client of the library that CLIENT names, which leads to this server: where it names none, the input, and so ioredis. */
export function clientOf(
  input: RedisNodeInput,
  client = process.env['CLIENT'] ?? 'ioredis',
): RedisNodeInput {
  if (client === 'ioredis') return input;
  if (client !== 'node-redis') throw new Error(`no client has the name ${client}`);
  if (typeof input === 'string') return nodeRedis().createClient({ url: input });
  const { host, port, username, password, db: database, tls } = input as RedisOptions;
  // Sentinels, clusters and ready clients are those of ioredis.
  if ('duplicate' in input || host === undefined) return input;
  const place = { host, port: port! };
  const socket = tls === undefined ? place : { ...place, tls: true as const, ...tls };
  const given = Object.entries({ username, password, database }).filter(([, value]) => value);
  return nodeRedis().createClient({ socket, ...Object.fromEntries(given) });
}

/** What makes the connections to a server, over the client library that CLIENT names. */
export function sourceOf(given: RedisNodeInput, options: ClientSourceOptions = {}): WireSource {
  const input = clientOf(given);
  if (isOfNodeRedis(input)) return new NodeRedisSource(input, options);
  return new ClientSource(input, { keyPrefix: REDLOCK_DEFAULTS.keyPrefix, ...options });
}

/** The node of a server, over the client library that CLIENT names. */
export function createRedisNode(
  input: RedisNodeInput,
  options: ClientSourceOptions = {},
): RedisLockNode {
  const { keyPrefix = REDLOCK_DEFAULTS.keyPrefix } = options;
  return new RedisLockNode(sourceOf(input, options), keyPrefix);
}
