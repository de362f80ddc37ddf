import { createLocks, type LocksOptions } from '../../../lib/locks/index.ts';
import type { Library, Locks, Settings } from '../library.ts';

/** It has no logger to write to: who plays looks at the table. */
const logger = { log: () => undefined, warn: () => undefined, error: () => undefined };

export async function openLocks(
  ttl: number,
  nodes: LocksOptions['nodes'],
  close: () => Promise<unknown> = async () => undefined,
): Promise<Locks> {
  const locks = await createLocks({ nodes, ttl, logger, startupTimeout: '1m' });
  return {
    acquire: async (key) => {
      const lock = await locks.acquire(key);
      const release = () => lock.release();
      return { isHeld: () => lock.isHeld, release, token: lock.token.value };
    },
    close: async () => {
      await locks.close();
      await close();
    },
  };
}

const open: Settings['open'] = (urls, ttlMs) => openLocks(ttlMs, urls);

export const library: Library = {
  servers: 'redis',
  errors: ['LockBusyError', 'LockLostError', 'QuorumUnavailableError'],
  // One server that keeps its locks in memory may give a lock twice after a restart, as the start says.
  defaults: { what: 'one server', servers: 1, open, mayOverlap: ['forgotten'] },
  best: { what: 'five servers', servers: 5, open, mayOverlap: [] },
};
