/** Subject that can be measured beside others. */
export interface Contestant {
  readonly name: string;
  /** Does once what is measured. Throws when it could not. */
  cycle(key: string): Promise<void>;
  close(): Promise<void>;
}

/** Contestant that can lock. */
export interface LockContestant extends Contestant {
  /** Runs the work under the lock, once it is free. Throws when it gives up waiting. */
  hold(key: string, work: () => Promise<void>): Promise<void>;
}

/** Ttl that all libraries get. */
export const TTL_MS = 10_000;
