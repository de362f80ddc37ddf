/** Write that a fenced resource refused. */
export interface Refusal {
  readonly key: string;
  readonly holder: string;
  readonly token: number;
  readonly highestToken: number;
  readonly atMs: number;
}

/**
 * Resource that locks protect, per key, in two views that get the same writes: one checks the fencing token in the write, the
 * other believes everybody.
 */
export class Resource {
  readonly refusals: Refusal[] = [];
  /** Writes of holders that were not the newest, as the unfenced view took them. */
  staleWritesTaken = 0;
  writes = 0;
  readonly #highest = new Map<string, number>();
  readonly #lastWriter = new Map<string, number>();

  write(key: string, token: number, holder: string, atMs: number): void {
    this.writes += 1;
    if (token < (this.#lastWriter.get(key) ?? 0)) this.staleWritesTaken += 1;
    this.#lastWriter.set(key, token);
    const highestToken = this.#highest.get(key) ?? 0;
    if (token < highestToken) this.refusals.push({ key, holder, token, highestToken, atMs });
    else this.#highest.set(key, token);
  }
}
