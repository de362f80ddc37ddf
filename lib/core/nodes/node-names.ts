import type { LockNames } from './lock-node.ts';

/**
 * A lock's own name is prefix + key, so that other Redlock clients with that name exclude us; the names of its floor and of its
 * queue, which is that of the lock and `#queue`, are reserved.
 */
export class NodeNames implements LockNames {
  readonly marker: string;
  readonly #keyPrefix: string;
  readonly #keys: readonly string[];

  constructor(keyPrefix: string, keys: readonly string[]) {
    this.marker = `${keyPrefix}#marker`;
    this.#keyPrefix = keyPrefix;
    this.#keys = keys;
  }

  get pairs(): readonly string[] {
    const pairs: string[] = [];
    for (const key of this.#keys)
      pairs.push(this.#keyPrefix + key, `${this.#keyPrefix}#floor:${key}`);
    return pairs;
  }

  get processes(): string {
    return `${this.#keyPrefix}#process:`;
  }

  get locks(): readonly string[] {
    return this.#keys.map((key) => this.#keyPrefix + key);
  }
}

/** The channel on which nodes notify the service whose holders begin with `mark`. */
export function channelOf(keyPrefix: string, mark: string): string {
  return `${keyPrefix}#turns:${mark}`;
}

/** The beginning that all holders of one service have in common. */
export function markOf(holder: string): string {
  return holder.slice(0, 8);
}
