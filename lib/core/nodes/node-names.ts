import type { LockNames } from './lock-node.ts';

/** Where a node remembers when it may vote. */
export function markerName(keyPrefix: string): string {
  return `${keyPrefix}#marker`;
}

/** A lock's own name is prefix + key, so that other Redlock clients with that name exclude us; the name of its floor is reserved. */
export function lockNames(keyPrefix: string, keys: readonly string[]): LockNames {
  const [first] = keys;
  // Nearly every lock has one key: no array that grows.
  if (keys.length === 1 && first !== undefined) {
    const lock = keyPrefix + first;
    const floor = floorName(keyPrefix, first);
    return {
      locks: [lock],
      pairs: [lock, floor],
      withMarker: [markerName(keyPrefix), lock, floor],
    };
  }
  const locks = keys.map((key) => keyPrefix + key);
  const pairs = keys.flatMap((key) => [keyPrefix + key, floorName(keyPrefix, key)]);
  return { locks, pairs, withMarker: [markerName(keyPrefix), ...pairs] };
}

function floorName(keyPrefix: string, key: string): string {
  return `${keyPrefix}#floor:${key}`;
}
