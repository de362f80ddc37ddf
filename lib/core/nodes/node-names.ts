import type { LockNames } from './lock-node.ts';

/** Where a node remembers when it may vote. */
export function markerName(keyPrefix: string): string {
  return `${keyPrefix}#marker`;
}

/** A lock's own name is prefix + key, so that other Redlock clients with that name exclude us; the name of its floor is reserved. */
export function lockNames(keyPrefix: string, keys: readonly string[]): LockNames {
  const locks: string[] = [];
  const pairs: string[] = [];
  for (const key of keys) {
    const lock = keyPrefix + key;
    locks.push(lock);
    pairs.push(lock, `${keyPrefix}#floor:${key}`);
  }
  return { locks, pairs, withMarker: [`${keyPrefix}#marker`, ...pairs] };
}
