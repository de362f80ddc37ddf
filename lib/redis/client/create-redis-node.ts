import { REDLOCK_DEFAULTS } from '../../core/options/options.ts';
import { RedisLockNode } from '../redis-lock-node.ts';
import { ClientSource, type ClientSourceOptions, type RedisNodeInput } from './client-source.ts';

/**
 * Makes the node of a server, over ioredis 5 or 6, or another client with its API.
 *
 * @throws RedlockConfigError when the input is not a Redis node, or is a cluster and the key prefix has no hash tag
 */
export function createRedisNode(
  input: RedisNodeInput,
  { keyPrefix = REDLOCK_DEFAULTS.keyPrefix, ...options }: ClientSourceOptions = {},
): RedisLockNode {
  return new RedisLockNode(new ClientSource(input, { keyPrefix, ...options }), keyPrefix);
}
