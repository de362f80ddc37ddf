/**
 * The fencing token of one held lock: a number that grows with every grant of a key, whatever clocks, pauses and
 * restarts do. A resource that remembers the highest token it has seen can refuse a holder that came back from the dead.
 *
 * Immutable. Compares with `<` and `>` by value; `String(token)` is its decimal form. The value is in microseconds since
 * the Unix epoch when the quorum issues it, and a safe integer until the year 2255.
 *
 * Source: Martin Kleppmann, "How to do distributed locking" (2016).
 *
 * @example
 * ```ts
 * logger.log(`token ${token} of ${token.keys.join(', ')}`, { holder: token.holder });
 * ```
 */
export class FencingToken {
  /** The number to compare: larger is newer. A positive safe integer. */
  readonly value: number;
  /** The keys it was granted for; one token serves the whole set. */
  readonly keys: readonly string[];
  /** Random identity of the grant. Two grants never share it, so that equal numbers from a broken source still differ. */
  readonly holder: string;

  constructor(value: number, keys: readonly string[], holder: string) {
    if (!Number.isSafeInteger(value) || value <= 0) {
      throw new RangeError(
        `A fencing token is a positive safe integer, not ${String(value)}. A fence also takes { value, keys, holder } with a bigint or decimal text.`,
      );
    }
    this.value = value;
    this.keys = keys;
    this.holder = holder;
    Object.freeze(this);
  }

  /** Returns its number, so that `<` and `>` compare two tokens. */
  valueOf(): number {
    return this.value;
  }

  /** Returns its number in decimal. */
  toString(): string {
    return String(this.value);
  }
}

/** The answers of fences to the latest grants, by holder, since a token may be a copy: false once one has refused it. */
const admissions = new Map<string, boolean>();

/** Notes what a fence answered. What is forgotten counts as not admitted. */
export function noteAdmission({ holder }: { readonly holder: string }, wasAdmitted: boolean): void {
  admissions.set(holder, wasAdmitted && admissions.get(holder) !== false);
  if (admissions.size > 16_384) admissions.delete(admissions.keys().next().value!);
}

/** Says whether a fence has admitted the token, and none has refused it. */
export function isAdmitted({ holder }: FencingToken): boolean {
  return admissions.get(holder) === true;
}

/**
 * Issues fencing tokens instead of the quorum, for example from a counter row in the database that checks them.
 *
 * It is called while the lock is held, and has at most one ttl, because the lock is not extended meanwhile. The validity of the
 * lock is checked again afterwards: a token that was fetched late is thrown away with the lock. It must return a positive safe integer, larger than every number returned before for
 * any of these keys. When it throws, the lock is released and the caller gets its error.
 */
export interface TokenSource {
  /** Resolves with the token of one grant. */
  issue(request: TokenRequest): Promise<number>;
}

/** The grant that a {@link TokenSource} issues a token for. */
export interface TokenRequest {
  /** The keys of the grant; one token serves all of them. */
  readonly keys: readonly string[];
  /** Random identity of this grant. */
  readonly holder: string;
  /** Aborted when the lock is lost meanwhile. */
  readonly signal: AbortSignal;
}
