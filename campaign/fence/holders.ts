import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { chance } from './chance.ts';
import { MAX_AGE_MS, type Record } from './record.ts';

/** A holder of the worst possible lock, which gave the same resource to others at the same time. */
export class Holder {
  readonly holder = randomUUID();
  readonly token: FencingToken;
  /** The number of transactions that it writes in. */
  readonly writes = 1 + Math.floor(chance.fraction() * 3);

  constructor(
    readonly resource: string,
    value: number,
  ) {
    this.token = new FencingToken(value, [resource], this.holder);
  }

  /** Naps come between all steps, so that every interleaving comes about. */
  async nap(): Promise<void> {
    if (chance.fraction() < 0.5) await sleep(chance.fraction() * LONGEST_NAP_MS);
  }
}

const LONGEST_NAP_MS = 3;

/** The time for which tokens are admitted: they are that much younger than the fence allows. */
const LIFE_MS = 600;
/** Greatest jumps of clocks. */
const AHEAD_MS = 800;
const BEHIND_MS = 300;

/** Resources are used for a while, in windows, and then idle until they are forgotten. */
const WINDOWS = 15;
const RESOURCES_PER_WINDOW = 32;
/** Few, so that holders meet. */
const RESOURCES_OF_CONTROL = 3;

export const RIGHT = 'right';

export const resourcesOf = (name: string): string[] => {
  const length = name === RIGHT ? WINDOWS * RESOURCES_PER_WINDOW : RESOURCES_OF_CONTROL;
  return Array.from({ length }, (_none, index) => `${name}-${index}`);
};

const happens = (share: number): boolean => chance.fraction() < share;

/** Hands out tokens that overlap, by clocks that jump, and lets old holders come back. */
export class Holders {
  readonly #resources: readonly string[];
  readonly #newest = new Map<string, number>();
  readonly #past: Holder[] = [];
  #started = 0;

  constructor(
    name: string,
    private readonly total: number,
    private readonly record: Record,
  ) {
    this.#resources = resourcesOf(name);
  }

  get progress(): number {
    return Math.min(1, this.#started / this.total);
  }

  next(): Holder | undefined {
    if (this.#started >= this.total) return undefined;
    this.#started += 1;
    // A holder that was frozen for up to the whole run.
    if (happens(0.04) && this.#past.length > 0) {
      const at = Math.floor(chance.fraction() * this.#past.length);
      return this.#past.splice(at, 1)[0];
    }
    const size = Math.min(RESOURCES_PER_WINDOW, this.#resources.length);
    const windows = this.#resources.length / size;
    const window = Math.min(windows - 1, Math.floor(this.progress * windows));
    const at = window * size + Math.floor(chance.fraction() * size);
    return this.issue(this.#resources[at]!, happens(0.1));
  }

  /** An ended holder may come back, but not beside itself: nothing keeps a holder from its own writes. */
  ended(holder: Holder): void {
    if (happens(0.1)) this.#past.push(holder);
  }

  /** @param isRepeated the number was given to another holder before */
  issue(resource: string, isRepeated = false, youngerMs = LIFE_MS): Holder {
    const last = this.#newest.get(resource) ?? 0;
    const jumpMs = happens(0.02) ? chance.fraction() * AHEAD_MS : 0;
    const behindMs = happens(0.02) ? chance.fraction() * BEHIND_MS : 0;
    const clockMs = Date.now() - MAX_AGE_MS + youngerMs + jumpMs - behindMs;
    const value = isRepeated && last > 0 ? last : Math.max(last + 1, Math.floor(clockMs) * 1_000);
    this.#newest.set(resource, value);
    const holder = new Holder(resource, value);
    this.record.issued(holder);
    return holder;
  }

  /** Issues one more for each resource of the last window: nobody is newer, and it is young, so none may be refused. */
  last(): Holder[] {
    const resources = this.#resources.slice(-RESOURCES_PER_WINDOW);
    return resources.map((resource) => this.issue(resource, false, MAX_AGE_MS));
  }
}

/** Runs all holders, so many at once; what fails is recorded. */
export async function runHolders(
  holders: Holders,
  workers: number,
  record: Record,
  run: (holder: Holder) => Promise<void>,
): Promise<void> {
  const worker = async (): Promise<void> => {
    for (let holder = holders.next(); holder; holder = holders.next()) {
      await holder.nap();
      try {
        await run(holder);
      } catch (error) {
        record.failed(error);
        // The server may be starting again.
        if (record.crashes > 0) await sleep(5);
      }
      holders.ended(holder);
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
}
