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
  /** All keys of the grant; one token serves them. */
  readonly keys: readonly string[];
  /** Random identity of this grant. */
  readonly holder: string;
  /** Aborted when the lock is lost meanwhile. */
  readonly signal: AbortSignal;
}
