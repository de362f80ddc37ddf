/**
 * A shared set behind a lock, as in Jepsen's lock-set: read it, think, write it back with one element more.
 *
 * Fenced, every read and write carries the token of the lock, and a token below the highest ever seen is refused. The read
 * counts, too: otherwise the write of an old holder between the read and the write of a new one would be lost.
 */
export class SetRegister {
  elements: readonly string[] = [];
  refused = 0;
  readonly #fenced: boolean;
  #highest = 0;

  constructor(fenced: boolean) {
    this.#fenced = fenced;
  }

  /** Undefined: refused. */
  read(token: number): readonly string[] | undefined {
    return this.#admit(token) ? this.elements : undefined;
  }

  write(token: number, elements: readonly string[]): boolean {
    if (!this.#admit(token)) return false;
    this.elements = elements;
    return true;
  }

  #admit(token: number): boolean {
    if (this.#fenced && token < this.#highest) {
      this.refused += 1;
      return false;
    }
    this.#highest = Math.max(this.#highest, token);
    return true;
  }
}
