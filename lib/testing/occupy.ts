import type { FencingToken } from '../core/fencing-token.ts';
import { RedlockConfigError } from '../core/errors.ts';
import type { Duration } from '../core/options/duration.ts';
import { REDLOCK_DEFAULTS } from '../core/options/options.ts';
import { checkOptionNames } from '../core/options/option-names.ts';
import { Redlock } from '../core/redlock.ts';
import { createMemoryNodes, type MemoryLockNode } from './memory/memory-lock-node.ts';

/** The options of {@link occupy}. */
export interface OccupyOptions {
  /**
   * Take the keys also from a holder that has them, as if that one had been paused past its ttl: the new token is newer, a
   * fence that has claimed it rejects the old one, and the old holder loses its lock at its next renewal (a third of its ttl
   * after the last one, or when the test calls `lock.extend()`). @default false
   */
  readonly takeOver?: boolean;
  /** The time to live; extended until the release. @default '10s' */
  readonly ttl?: Duration;
  /** Key prefix of the module. @default 'lock:' */
  readonly keyPrefix?: string;
}

/** The keys that another process holds, as far as the application can tell. */
export interface OccupiedKeys extends AsyncDisposable {
  /** The token of that holder. */
  readonly token: FencingToken;
  /** Frees the keys; callers that wait for them are woken. */
  release(): Promise<void>;
}

const OF_MEMORY = 'give what createMemoryNodes returned, the same nodes as to the application';

/** Node may be of another copy of this package, where `instanceof` won't do. */
const isMemoryNode = (node: Partial<MemoryLockNode> | undefined) =>
  typeof node?.server?.deleteLock === 'function';

/**
 * Makes keys busy for a test: another process holds them until `release`.
 *
 * @param nodes those of the application, from `createMemoryNodes`
 * @throws LockBusyError when somebody holds them, unless `takeOver` is set
 *
 * @example
 * ```ts
 * await using other = await occupy(nodes, 'seat:12A');
 * await expect(seats.book('12A', 'ann')).rejects.toThrow('is held');
 * ```
 */
export async function occupy(
  nodes: readonly MemoryLockNode[],
  keys: string | readonly string[],
  options: OccupyOptions = {},
): Promise<OccupiedKeys> {
  checkOptionNames('occupy', options, ['takeOver', 'ttl', 'keyPrefix']);
  const { takeOver = false, ttl, keyPrefix = REDLOCK_DEFAULTS.keyPrefix } = options;
  if (!Array.isArray(nodes) || !nodes.every(isMemoryNode))
    throw new RedlockConfigError('nodes', undefined, OF_MEMORY, 'something else');
  const servers = nodes.map(({ server }) => server);
  if (takeOver) {
    for (const key of [keys].flat())
      for (const server of servers) server.deleteLock(keyPrefix + key);
  }
  const redlock = new Redlock(createMemoryNodes(servers), { wait: 0, ttl, keyPrefix });
  redlock.open();
  try {
    await redlock.ready(1_000);
    const lock = await redlock.acquire(keys);
    const release = async () => {
      await lock.release();
      await redlock.close();
    };
    return { token: lock.token, release, [Symbol.asyncDispose]: release };
  } catch (error) {
    await redlock.close();
    throw error;
  }
}
