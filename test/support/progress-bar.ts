const WIDTH = 30;
const PAUSE_MS = 100;

/** A line on the terminal that says how far something is; nothing where standard error is no terminal. */
export class ProgressBar {
  readonly #startedAtMs = performance.now();
  #shownAtMs = -Infinity;

  constructor(private readonly total: number) {}

  /** Whether there is a terminal to see it. */
  get isShown(): boolean {
    return process.stderr.isTTY === true;
  }

  /** `note`: what else is to be said, as `2 failed`. */
  show(done: number, note: string): void {
    const now = performance.now();
    if (!this.isShown || (now - this.#shownAtMs < PAUSE_MS && done < this.total)) return;
    this.#shownAtMs = now;
    const filled = Math.round((done / this.total) * WIDTH);
    const bar = '#'.repeat(filled) + '.'.repeat(WIDTH - filled);
    const leftSeconds = this.#leftSeconds(done, now);
    process.stderr.write(
      `\r[${bar}] ${done}/${this.total}, ${note}, ${leftSeconds} s left\u001b[K`,
    );
  }

  /** Makes what is printed next begin on a line of its own. */
  end(): void {
    if (this.isShown) process.stderr.write('\n');
  }

  #leftSeconds(done: number, now: number): number {
    const perRunMs = (now - this.#startedAtMs) / Math.max(1, done);
    return Math.round((perRunMs * (this.total - done)) / 1_000);
  }
}
