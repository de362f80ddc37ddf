import { UNASKED } from '../problems.ts';

/** The kinds of what a server sends on a connection that has subscribed, each by its first two lines. */
const [MESSAGE, ...ANSWERS] = [
  ['*3', 'message'],
  ['*3', 'subscribe'],
  ['*2', 'pong'],
].map(([size = '', kind = '']) => `${size} $${kind.length}`);

/** None of our commands is answered by more than a list of lists, or by so many elements, or by so long a line. */
const MOST_DEPTH = 8;
const MOST_ELEMENTS = 1_000_000;
const LONGEST_LINE = 65_536;

const NO_PROTOCOL =
  'Protocol error: no Redis answers like this, so another program may use this port';

/**
 * Reads what a server sends (RESP 2) before the client does. ioredis throws, where no caller can catch it, over a null that it did not
 * ask for and over messages of another form; so such a piece never reaches it.
 */
export class ReplyGuard {
  /** How many commands were written, and not answered. */
  due = 0;
  /** How many answers were due when the connection subscribed; they have other forms than what follows. Undefined before that. */
  #dueBefore: number | undefined;
  /** How many elements are missing in each of the lists that are being read, the outermost first. */
  readonly #open: number[] = [];
  /** How many bytes of a text have not arrived. */
  #skipped = 0;
  /** The beginning of a line whose end has not arrived. */
  #line = '';
  /** The first lines of the present reply: a sign and a number each. */
  #heads: string[] = [];

  /** From now on the server sends messages, and what concerns subscriptions. */
  subscribed(): void {
    this.#dueBefore = this.due;
  }

  /** Returns why the client must not see this piece; undefined where it may. */
  read(piece: Buffer): string | undefined {
    for (let at = 0; at < piece.length;) {
      let fault: string | undefined;
      if (this.#skipped > 0) {
        const arrived = Math.min(this.#skipped, piece.length - at);
        at += arrived;
        this.#skipped -= arrived;
        if (this.#skipped === 0) fault = this.#endElement();
      } else {
        const end = piece.indexOf('\n', at);
        this.#line += piece.toString('latin1', at, end < 0 ? piece.length : end);
        if (this.#line.length > LONGEST_LINE) return NO_PROTOCOL;
        if (end < 0) return undefined;
        at = end + 1;
        fault = this.#begin(this.#line.trimEnd());
        this.#line = '';
      }
      if (fault !== undefined) return fault;
    }
    return undefined;
  }

  /** Takes the first line of an element. */
  #begin(line: string): string | undefined {
    const [sign = ''] = line;
    const size = Number(line.slice(1));
    if (!'+-:$*'.includes(sign)) return NO_PROTOCOL;
    if (this.#open.length === 0) this.#heads = [];
    if (this.#heads.length < 4) this.#heads.push(line);
    if (sign === '$' && size >= 0) this.#skipped = size + 2;
    else if (sign !== '*' || size <= 0) return this.#endElement();
    else if (!(this.#open.push(size) <= MOST_DEPTH && size <= MOST_ELEMENTS)) return NO_PROTOCOL;
    return undefined;
  }

  #endElement(): string | undefined {
    for (let last = this.#open.length - 1; last >= 0; last -= 1) {
      this.#open[last]! -= 1;
      if (this.#open[last]! > 0) return undefined;
      this.#open.pop();
    }
    return this.#isExpected(this.#heads) ? undefined : UNASKED;
  }

  #isExpected([first = '', kind = '', ...others]: readonly string[]): boolean {
    if (this.#dueBefore === 0) {
      const form = `${first} ${kind}`;
      if (form === MESSAGE) return others[0]?.[1] !== '-' && others[1]?.[1] !== '-';
      // A server that refuses to subscribe goes on as before.
      if (first[0] === '-') this.#dueBefore = undefined;
      else if (!ANSWERS.includes(form) || others.some((head) => head[1] === '-')) return false;
    } else if (this.#dueBefore !== undefined) this.#dueBefore -= 1;
    this.due -= 1;
    return this.due >= 0;
  }
}
