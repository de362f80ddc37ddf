/** Kinds of what a server sends on a connection that has subscribed differ by their lengths. */
const [MESSAGE, ...ANSWERS] = ['message', 'subscribe', 'pong'].map(({ length }) => `$${length}`);

/**
 * Reads what a server sends (RESP 2) before the client does. ioredis throws, where no caller can catch it, over a null that it did not
 * ask for and over messages of another form; so such a piece never reaches it.
 */
export class ReplyGuard {
  /** Commands that were written, and not answered. */
  due = 0;
  /** The connection has subscribed: each reply is a message, or says something about a subscription. */
  isForMessages = false;
  /** Elements of the present reply that have not arrived. */
  #missing = 0;
  /** Bytes of a text that have not arrived. */
  #skipped = 0;
  /** The beginning of a line whose end has not arrived. */
  #line = '';
  /** The lines of the present reply so far: a sign and a number each. */
  #heads: string[] = [];

  /** Returns false for a piece with a reply that answers nothing, or has a form that no server sends. */
  read(piece: Buffer): boolean {
    for (let at = 0; at < piece.length;) {
      if (this.#skipped > 0) {
        const arrived = Math.min(this.#skipped, piece.length - at);
        at += arrived;
        this.#skipped -= arrived;
        if (this.#skipped === 0 && !this.#endsElement()) return false;
        continue;
      }
      const end = piece.indexOf('\n', at);
      this.#line += piece.toString('latin1', at, end < 0 ? piece.length : end);
      if (end < 0) return true;
      at = end + 1;
      const line = this.#line;
      this.#line = '';
      if (!this.#begins(line)) return false;
    }
    return true;
  }

  /** Takes the first line of an element. */
  #begins(line: string): boolean {
    const size = Number(line.slice(1));
    if (this.#missing === 0) {
      this.#missing = 1;
      this.#heads = [];
    }
    if (this.#heads.length < 4) this.#heads.push(line.trimEnd());
    if (line[0] === '$' && size >= 0) this.#skipped = size + 2;
    else if (line[0] === '*' && size > 0) this.#missing += size - 1;
    else return this.#endsElement();
    return true;
  }

  #endsElement(): boolean {
    this.#missing -= 1;
    return this.#missing > 0 || this.#isExpected(this.#heads);
  }

  #isExpected([first = '', kind = '', ...others]: readonly string[]): boolean {
    if (this.isForMessages && first[0] !== '-') {
      if (others.some((head) => head[1] === '-')) return false;
      if (kind === MESSAGE) return first === '*3';
      if (!ANSWERS.includes(kind)) return false;
    }
    this.due -= 1;
    return this.due >= 0;
  }
}
