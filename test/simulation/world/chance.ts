import { SeededRandom } from '../../support/seeded-random.ts';

/** Repeatable chance with independent branches: what one part draws doesn't change what another part gets. */
export class Chance extends SeededRandom {
  readonly #seed: number;

  constructor(seed: number) {
    super(seed);
    this.#seed = seed;
  }

  /** A stream of its own for the part called `name`. */
  branch(name: string): Chance {
    let hash = 2_166_136_261 ^ this.#seed;
    for (let index = 0; index < name.length; index += 1) {
      hash = Math.imul(hash ^ name.charCodeAt(index), 16_777_619);
    }
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    return new Chance((hash ^ (hash >>> 13)) >>> 0);
  }

  /** True with this probability. */
  happens(probability: number): boolean {
    return this.fraction() < probability;
  }

  shuffled<Item>(items: Iterable<Item>): Item[] {
    const drawn = [...items].map((item) => [this.fraction(), item] as const);
    return drawn.sort(([a], [b]) => a - b).map(([, item]) => item);
  }

  /** An integer in [from, to]. */
  integer(from: number, to: number): number {
    return from + Math.floor(this.fraction() * (to - from + 1));
  }
}
