/** How often one process may take a key in a row at least while others wait for it: hand-over inside a process is cheapest. */
const LEAST_GRANTS_IN_A_ROW = 4;
/** Turns get longer, and rarer by grants, until others have left so many unused. */
const MAX_LONGER_TURNS = 3;
/** After so many, others are likely to have gone: turns get rarer by time, until they cost no more than a ninth of it. */
const LIKELY_GONE = 8;
const MAX_UNTAKEN_TURNS = LIKELY_GONE + 3;
const RARER_MS = 80;
/** A row that has lasted for so many turns ends, after however few grants: the turn takes a ninth of the time at most. */
const TURNS_IN_A_ROW = 8;
/** Rows are shorter where more others wait than these, so that the key comes round as soon. */
const FEW_OTHERS = 3;

const LONGEST_HOLDER = 64;
const MOST_PROCESSES = 10_000;

/** Holders of one service begin alike. */
function serviceOf(holder: string): string {
  return holder.slice(0, 8);
}

/** Of one key that other processes want, too: when this one lets them go first, and its place in their order. */
export class Turns {
  grantsInARow = 0;
  /** No try before this: it is the turn of other processes. */
  notBeforeMs = 0;
  /** Their turn has begun, and the key was not granted here since. */
  hasSteppedBack = false;
  /** Turns that others left unused, less those taken since: others may have a longer way to the nodes, or have gone. */
  untaken = 0;
  /** Other connections that received the latest release here that was published; 0 where none is known. */
  rivals = 0;
  /** How many nodes published the latest release of others. */
  voices = 0;
  /** How often it was to be the next, and asked, but another process had the key. */
  lostTurns = 0;
  /** How often in a row the key was granted here before others that were to have it. */
  overtaken = 0;
  /** Processes that have had the key since it was last granted here, and how many there were between the latest two rows here. */
  #had = new Set<string>();
  #others = 0;
  #latest = '';
  /** Time between the latest two releases of others that were published. */
  betweenMs = Number.POSITIVE_INFINITY;
  #releasedAtMs = Number.NEGATIVE_INFINITY;
  #isTaken = false;
  /** No turn before this. */
  #nextAtMs = 0;
  /** The row began, as far as it was looked at. */
  #sinceMs: number | undefined;

  /**
   * True when it is another process's turn; then the count starts again. A row lasts for twice `turnMs`, in which the key may be
   * free, or hand-over between processes would take most of the time of short holds; for less where many others take the key.
   * Turns get longer while others leave them unused, and rarer, so that they cost no more. Grants that take long make a row
   * shorter, or one that missed a turn would wait for the next one until its time is over.
   */
  begins(nowMs: number, turnMs: number): boolean {
    if (this.grantsInARow <= 1) this.#sinceMs = undefined;
    const sinceMs = (this.#sinceMs ??= nowMs);
    const row = LEAST_GRANTS_IN_A_ROW * 2 ** Math.min(this.untaken, MAX_LONGER_TURNS);
    const untilMs = Math.max(
      this.#nextAtMs,
      sinceMs + (2 * turnMs) / Math.max(1, this.#others / FEW_OTHERS),
    );
    const isLong = nowMs - sinceMs >= TURNS_IN_A_ROW * Math.max(turnMs, RARER_MS);
    if ((this.grantsInARow < row && !isLong) || nowMs < untilMs) return false;
    this.#endRow();
    this.hasSteppedBack = true;
    this.#isTaken = false;
    return true;
  }

  /** Another process had the key. */
  taken(): void {
    this.notBeforeMs = 0;
    this.#isTaken = true;
  }

  /** A node published a release of another process. */
  released(holder: string, nowMs: number): void {
    // Anyone may publish anything.
    if (holder.length > LONGEST_HOLDER) return;
    if (holder !== this.#latest) {
      this.#latest = holder;
      this.betweenMs = nowMs - this.#releasedAtMs;
      this.#releasedAtMs = nowMs;
      if (this.#had.size < MOST_PROCESSES) this.#had.add(serviceOf(holder));
      this.voices = 0;
    }
    this.voices += 1;
  }

  /** How many processes have had the key since it was last granted here. */
  get passed(): number {
    return this.#had.size;
  }

  /** How many others are to have the key before this process: each has it once in between. */
  get ahead(): number {
    return Math.max(0, this.rivals - this.passed);
  }

  /** A quorum named another holder. */
  lost(): void {
    this.#endRow();
    if (this.passed > 0 && this.ahead === 0) this.lostTurns += 1;
  }

  /** Granted here: the turn of the others is over. */
  end(nowMs: number): void {
    if (this.passed > 0) {
      this.overtaken = this.ahead > 0 ? this.overtaken + 1 : 0;
      this.#others = this.passed;
      this.#had.clear();
    }
    this.lostTurns = 0;
    if (!this.hasSteppedBack) return;
    this.hasSteppedBack = false;
    if (this.#isTaken) this.untaken = Math.max(0, Math.min(this.untaken, MAX_LONGER_TURNS) - 1);
    else this.untaken = Math.min(this.untaken + 1, MAX_UNTAKEN_TURNS);
    const rarer = this.untaken - LIKELY_GONE;
    this.#nextAtMs = rarer > 0 ? nowMs + RARER_MS * 2 ** rarer : 0;
  }

  #endRow(): void {
    this.grantsInARow = 0;
    this.#sinceMs = undefined;
  }
}
