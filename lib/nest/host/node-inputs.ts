import { RedlockConfigError } from '../../core/errors.ts';
import type { LockNode } from '../../core/nodes/lock-node.ts';
import { RedisLockNode } from '../../redis/redis-lock-node.ts';
import type { NodeInput } from '../redlock-module-options.ts';

/** @throws RedlockConfigError when an input is none of these, or a server is listed twice: it would have two votes */
export function createNodes(inputs: readonly NodeInput[], keyPrefix: string): LockNode[] {
  if (!Array.isArray(inputs) || inputs.length === 0) {
    // Not as it was given: what stands where an array should be may be a URL with a password.
    const given = Array.isArray(inputs) ? 'an empty array' : `of type ${typeof inputs}`;
    throw new RedlockConfigError(
      'nodes',
      given,
      "give at least one Redis server, for example ['redis://localhost:6379']",
    );
  }
  const nodes = inputs.map((input: NodeInput) =>
    isLockNode(input) ? input : new RedisLockNode(input, { keyPrefix }),
  );
  const addresses = new Set<string>();
  for (const { address } of nodes) {
    if (addresses.has(address.toLowerCase())) {
      throw new RedlockConfigError(
        'nodes',
        address,
        'it is listed twice, and databases of one server are one server: list each independent server once',
      );
    }
    addresses.add(address.toLowerCase());
  }
  return nodes;
}

function isLockNode(input: NodeInput): input is LockNode {
  return (
    typeof input === 'object' &&
    input !== null &&
    ['open', 'join', 'acquire', 'extend', 'release', 'examine'].every(
      (method) => typeof (input as unknown as Record<string, unknown>)[method] === 'function',
    )
  );
}
