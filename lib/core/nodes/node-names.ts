import type { LockNames } from './lock-node.ts';

/** Where a node remembers when it may vote. */
export function markerName(keyPrefix: string): string {
  return `${keyPrefix}#marker`;
}

/** Held with every lock, so it keeps no more than it must. */
class Names implements LockNames {
  readonly marker: string;
  readonly pairs: readonly string[];

  constructor(marker: string, pairs: readonly string[]) {
    this.marker = marker;
    this.pairs = pairs;
  }

  get locks(): readonly string[] {
    return this.pairs.filter((_, index) => index % 2 === 0);
  }
}

/** A lock's own name is prefix + key, so that other Redlock clients with that name exclude us; the name of its floor is reserved. */
export function lockNames(
  keyPrefix: string,
  keys: readonly string[],
  marker = markerName(keyPrefix),
): LockNames {
  const [first = ''] = keys;
  // Nearly every lock has one key: an array that grows takes several times the memory.
  const pairs = [keyPrefix + first, `${keyPrefix}#floor:${first}`];
  for (let index = 1; index < keys.length; index += 1)
    pairs.push(keyPrefix + keys[index]!, `${keyPrefix}#floor:${keys[index]!}`);
  return new Names(marker, pairs);
}
