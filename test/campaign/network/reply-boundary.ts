const LINE_FEED = 10;
/** More than any length or count; the rest of a long simple string doesn't matter. */
const LONGEST_HEAD = 32;

/** Follows a stream of RESP replies (2 and 3), to know where one ends and the next begins. */
export class ReplyBoundary {
  /** Values that are still to come until the present reply is complete. */
  #open = 0;
  /** Bytes of a bulk string that are still to come, with its CRLF. */
  #bulk = 0;
  /** The line that has begun. */
  #head = '';

  /** Whether all replies that have begun are complete. */
  get isBetweenReplies(): boolean {
    return this.#open === 0 && this.#bulk === 0 && this.#head === '';
  }

  follow(bytes: Buffer): void {
    let offset = 0;
    while (offset < bytes.length) {
      if (this.#bulk > 0) {
        const taken = Math.min(this.#bulk, bytes.length - offset);
        offset += taken;
        this.#bulk -= taken;
        if (this.#bulk === 0) this.#open -= 1;
        continue;
      }
      const end = bytes.indexOf(LINE_FEED, offset);
      const until = end < 0 ? bytes.length : end + 1;
      const room = LONGEST_HEAD - this.#head.length;
      this.#head += bytes.toString('latin1', offset, Math.min(until, offset + room));
      offset = until;
      if (end >= 0) this.#lineEnded();
    }
  }

  #lineEnded(): void {
    const mark = this.#head.charAt(0);
    const count = Math.max(0, Number.parseInt(this.#head.slice(1), 10) || 0);
    const isNull = this.#head.charAt(1) === '-';
    this.#head = '';
    if (this.#open === 0) this.#open = 1;
    if ('$=!'.includes(mark) && !isNull) this.#bulk = count + 2;
    else if ('*~>'.includes(mark)) this.#open += count - 1;
    else if (mark === '%') this.#open += 2 * count - 1;
    // Attributes come before the value they are about.
    else if (mark === '|') this.#open += 2 * count;
    else this.#open -= 1;
  }
}
