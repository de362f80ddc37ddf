import type { LockNames } from './lock-node.ts';

/**
 * A lock's own name is prefix + key, so that other Redlock clients with that name exclude us; the names of its floor and of its queue, which is that of the lock and `#queue`, are reserved.
 *
 * The names are made when they are read: every try that waits for answers keeps this object.
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
    const [first = ''] = this.#keys;
    // Nearly every lock has one key: an array that grows takes several times the memory.
    const pairs = [this.#keyPrefix + first, `${this.#keyPrefix}#floor:${first}`];
    for (let index = 1; index < this.#keys.length; index += 1) {
      const key = this.#keys[index]!;
      pairs.push(this.#keyPrefix + key, `${this.#keyPrefix}#floor:${key}`);
    }
    return pairs;
  }

  get processes(): string {
    return `${this.#keyPrefix}#process:`;
  }

  get locks(): readonly string[] {
    return this.#keys.map((key) => this.#keyPrefix + key);
  }
}

/** The beginning that all holders of one service have in common. */
export function markOf(holder: string): string {
  return holder.slice(0, 8);
}
