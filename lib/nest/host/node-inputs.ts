import { RedlockConfigError } from '../../core/errors.ts';
import type { LockNode } from '../../core/nodes/lock-node.ts';
import { kindOf } from '../../core/options/option-names.ts';
import { RedisLockNode } from '../../redis/redis-lock-node.ts';
import type { NodeInput } from '../redlock-module-options.ts';

/** @throws RedlockConfigError when an input is none of these, or a server is listed twice: it would have two votes */
export function createNodes(inputs: readonly NodeInput[], keyPrefix: string): LockNode[] {
  // No value is shown: what stands where an array should be may be a URL with a password.
  if (!Array.isArray(inputs) || inputs.length === 0) {
    const shown = Array.isArray(inputs) ? 'an empty array' : kindOf(inputs);
    const fix = "give an array of Redis servers, for example ['redis://localhost:6379']";
    throw new RedlockConfigError('nodes', undefined, fix, shown);
  }
  const nodes = inputs.map((input: NodeInput, index) =>
    isLockNode(input)
      ? (input.forService?.() ?? input)
      : new RedisLockNode(input, { keyPrefix, option: `nodes[${index}]` }),
  );
  const servers = nodes.map(({ address }) => address.toLowerCase());
  const again = nodes[servers.findIndex((server, index) => servers.indexOf(server) < index)];
  if (again !== undefined) {
    throw new RedlockConfigError(
      'nodes',
      again.address,
      'it is listed twice, and databases of one server are one server: list each independent server once',
    );
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
