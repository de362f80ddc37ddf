/** Way through a link: `requests` from the client to the server, `replies` back. */
export type Direction = 'requests' | 'replies';

/** Ways that a fault is about; default both. */
interface Directed {
  readonly direction?: Direction | 'both';
}

/**
 * Treatment by a link of everything that goes through it, from the moment at which it is set.
 *
 * - `pass`: nothing.
 * - `hold`: keeps what arrives, and delivers it in order when the mode changes. A partition shorter than the patience of
 *   TCP, which sends again until it gets through.
 * - `lose`: throws away what arrives. A connection that lost something is reset when the mode changes, as a stream can't
 *   have holes; the others live on. A partition longer than the patience of TCP.
 * - `reset`: resets every connection, and new ones once they are accepted.
 * - `refuse`: resets every connection and accepts no new ones.
 * - `delay`: delivers each chunk after a time drawn evenly from minMs to maxMs; the order of a connection is kept.
 * - `truncate`: with this probability a chunk of replies is cut somewhere in its middle, and the connection is reset.
 * - `garbage`: with this probability bytes that are no RESP take the place of a chunk of replies; nothing else happens to
 *   the connection.
 *
 * What closes a connection (the end of the stream, a reset) is treated like bytes: held, lost, delayed.
 */
export type LinkMode =
  | { readonly kind: 'pass' }
  | ({ readonly kind: 'hold' } & Directed)
  | ({ readonly kind: 'lose' } & Directed)
  | { readonly kind: 'reset' }
  | { readonly kind: 'refuse' }
  | ({ readonly kind: 'delay'; readonly minMs: number; readonly maxMs: number } & Directed)
  | { readonly kind: 'truncate'; readonly probability: number }
  | { readonly kind: 'garbage'; readonly probability: number };

/** Fate of a chunk on its way, before it is handed to the other end. */
export type Treatment = 'pass' | 'hold' | 'lose' | 'delay';

/** Meaning of `mode` for one direction. */
export function treatmentOf(mode: LinkMode, direction: Direction): Treatment {
  if (mode.kind !== 'hold' && mode.kind !== 'lose' && mode.kind !== 'delay') return 'pass';
  const { direction: affected = 'both' } = mode;
  return affected === 'both' || affected === direction ? mode.kind : 'pass';
}

/** Whether a connection can begin: its handshake goes both ways. */
export function letsConnectionsBegin({ kind }: LinkMode): boolean {
  return kind !== 'hold' && kind !== 'lose';
}
