import { MemoryLockNode } from './memory/memory-lock-node.ts';
import type { MemoryLockNodeOptions } from './memory/memory-lock-node.ts';
import { MemoryLockServer } from './memory/memory-lock-server.ts';

/**
 * Lock nodes for tests without Redis: locks really exclude, expire and get increasing tokens, by the same rules as on Redis
 * (one contract suite runs against both).
 *
 * ```ts
 * RedlockModule.forRoot({ nodes: createMemoryNodes(3) })
 * ```
 * A second application that competes for the same locks gets nodes of its own on the same servers:
 * `createMemoryNodes(nodes.map((node) => node.server))`.
 *
 * @param countOrServers how many new servers to make, or the servers to connect to
 */
export function createMemoryNodes(
  countOrServers: number | readonly MemoryLockServer[],
  options: Omit<MemoryLockNodeOptions, 'address'> = {},
): MemoryLockNode[] {
  const servers =
    typeof countOrServers === 'number'
      ? Array.from({ length: countOrServers }, () => new MemoryLockServer())
      : countOrServers;
  return servers.map((server) => new MemoryLockNode(server, options));
}
