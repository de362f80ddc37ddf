import { RedlockConfigError } from '../core/errors.ts';
import { REDLOCK_DEFAULTS } from '../core/options/options.ts';
import type { ClientSourceOptions, RedisNodeInput } from './client/client-source.ts';
import { isOfNodeRedis, NodeRedisSource } from './node-redis/node-redis-source.ts';
import { RedisLockNode } from './redis-lock-node.ts';

/**
 * Makes the node of a server: over node-redis where it is given a client of it, else over ioredis, which is not loaded before that.
 *
 * @throws RedlockConfigError when the input is not a Redis node, is a client that sends late, is a cluster and the key prefix has no
 *   hash tag, or needs ioredis, which is not installed
 */
export async function createNode(
  input: RedisNodeInput,
  given: ClientSourceOptions,
): Promise<RedisLockNode> {
  const { option = 'nodes', keyPrefix = REDLOCK_DEFAULTS.keyPrefix } = given;
  if (typeof Object(input).customCommand === 'function') {
    const fix =
      'it connects again by itself and sends then what it kept, which may be a vote that comes late; beside it give a URL, or a client of ioredis, iovalkey or node-redis';
    throw new RedlockConfigError(option, undefined, fix, 'a client of GLIDE');
  }
  if (isOfNodeRedis(input)) return new RedisLockNode(new NodeRedisSource(input, given), keyPrefix);
  const { createRedisNode } = await import('./client/create-redis-node.ts').catch(
    (error: NodeJS.ErrnoException) => {
      const isMissing = error.code?.endsWith('MODULE_NOT_FOUND') === true;
      if (!isMissing || !error.message.includes("'ioredis'")) throw error;
      const fix = 'install it (npm install ioredis), or give a client of node-redis 5 or newer';
      throw new RedlockConfigError(option, undefined, fix, 'this without the package ioredis');
    },
  );
  return createRedisNode(input, given);
}
