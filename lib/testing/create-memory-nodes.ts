import { RedlockConfigError } from '../core/errors.ts';
import { MemoryLockNode } from './memory/memory-lock-node.ts';
import type { MemoryLockNodeOptions } from './memory/memory-lock-node.ts';
import { MemoryLockServer } from './memory/memory-lock-server.ts';
import type { MemoryLockServerOptions } from './memory/memory-lock-server.ts';

/**
 * Lock nodes for tests without Redis: locks really exclude, expire and get increasing tokens, by the same rules as on Redis
 * (one contract suite runs against both). They vote at once: the restart guard applies to servers that `restart` or lose their
 * data (`flush`), and to new ones with `fresh: true`. With fake timers (`jest.useFakeTimers()` after `await
 * module.init()`) a free lock is acquired and released as ever; waits, expiry and extensions happen when the test advances them.
 *
 * A second application that is given the same nodes competes for the same locks: it gets nodes of its own on the same servers, and
 * faults of a node (`freeze`, `disconnect`, `failNext`) meet the first one only.
 *
 * @example
 * ```ts
 * const nodes = createMemoryNodes(3);
 * await Test.createTestingModule({ imports: [RedlockModule.forRoot({ nodes })] }).compile();
 * ```
 * @param countOrServers how many new servers to make, or the servers to connect to
 * @throws RedlockConfigError when it is neither, or `fresh` is given with servers that exist
 */
export function createMemoryNodes(
  countOrServers: number | readonly MemoryLockServer[],
  options: Omit<MemoryLockNodeOptions, 'address'> & Pick<MemoryLockServerOptions, 'fresh'> = {},
): MemoryLockNode[] {
  const isList = Array.isArray(countOrServers);
  if (!isList && !(Number.isInteger(countOrServers) && Number(countOrServers) > 0)) {
    const fix = 'give a number of servers from 1 on, or servers';
    throw new RedlockConfigError('countOrServers', countOrServers, fix);
  }
  if (isList && options.fresh !== undefined) {
    const fix = 'these servers exist already; give it to new MemoryLockServer({ fresh })';
    throw new RedlockConfigError('fresh', options.fresh, fix);
  }
  const servers: readonly MemoryLockServer[] = isList
    ? countOrServers
    : Array.from(
        { length: countOrServers as number },
        () => new MemoryLockServer({ fresh: options.fresh }),
      );
  return servers.map((server) => new MemoryLockNode(server, options));
}
