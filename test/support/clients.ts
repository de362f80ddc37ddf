import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { RedisOptions } from 'ioredis';
import type * as Valkey from 'iovalkey';
import type * as NodeRedis from 'redis';
import { REDLOCK_DEFAULTS } from '../../lib/core/options/options.ts';
import { ClientSource } from '../../lib/redis/client/client-source.ts';
import type { ClientSourceOptions, RedisNodeInput } from '../../lib/redis/client/client-source.ts';
import { isOfNodeRedis, NodeRedisSource } from '../../lib/redis/node-redis/node-redis-source.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import type { WireSource } from '../../lib/redis/wire.ts';

// They are loaded where they are used: that takes longer than most specs.
const load = createRequire(join(process.cwd(), 'package.json'));

/** A client of the library that CLIENT names, which leads to this server: where it names none, the input, and so ioredis. */
export function clientOf(
  input: RedisNodeInput,
  client = process.env['CLIENT'] ?? 'ioredis',
): RedisNodeInput {
  // Sentinels, clusters and ready clients are those of ioredis.
  const isPlace = typeof input === 'string' || ('host' in input && !('duplicate' in input));
  if (client === 'ioredis' || !isPlace) return input;
  if (client === 'iovalkey') return clientOfValkey(input as Place);
  if (client === 'node-redis') return clientOfNodeRedis(input as Place);
  throw new Error(`no client has the name ${client}`);
}

type Place = string | RedisOptions;

function clientOfValkey(place: Place): RedisNodeInput {
  const { Redis } = load('iovalkey') as typeof Valkey;
  const options = { lazyConnect: true };
  return typeof place === 'string'
    ? new Redis(place, options)
    : new Redis({ ...(place as object), ...options });
}

function clientOfNodeRedis(place: Place): RedisNodeInput {
  const { createClient } = load('redis') as typeof NodeRedis;
  if (typeof place === 'string') return createClient({ url: place });
  const { host, port, username, password, db: database, tls } = place;
  const address = { host: host!, port: port! };
  const socket = tls === undefined ? address : { ...address, tls: true as const, ...tls };
  const given = Object.entries({ username, password, database }).filter(([, value]) => value);
  return createClient({ socket, ...Object.fromEntries(given) });
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
