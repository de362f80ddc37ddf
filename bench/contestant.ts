/** Something that can lock, for comparison. */
export interface Contestant {
  readonly name: string;
  /** Acquires and releases `key` once, uncontended. Throws when it doesn't get the lock. */
  cycle(key: string): Promise<void>;
  close(): Promise<void>;
}
