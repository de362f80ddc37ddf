import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { LinkConnection, resetSocket } from './link-connection.ts';
import { SeededRandom } from './seeded-random.ts';

/** Way through a link: `requests` from the client to the server, `replies` back. */
export type Direction = 'requests' | 'replies';

/**
 * Treatment by a link of everything that goes through it, from the moment at which it is set.
 *
 * - `pass`: nothing.
 * - `hold`: keeps what arrives, and delivers it in order when the mode changes: a partition shorter than the patience of TCP.
 * - `lose`: throws away what arrives. A connection that lost something is reset when the mode changes, as a stream can't
 *   have holes: a partition longer than the patience of TCP.
 * - `delay`: delivers each chunk after a time drawn evenly from minMs to maxMs; the order of a connection is kept.
 * - `reset`: resets every connection, and new ones once they are accepted.
 * - `truncate`: with this probability a chunk of replies is cut somewhere in its middle, and the connection is reset.
 * - `garbage`: with this probability bytes that are no RESP take the place of a chunk of replies.
 *
 * The end of a stream is treated like bytes: held, lost, delayed.
 */
export type LinkMode =
  | { readonly kind: 'pass' | 'reset' }
  | { readonly kind: 'hold' | 'lose'; readonly direction?: Direction }
  | {
      readonly kind: 'delay';
      readonly direction?: Direction;
      readonly minMs: number;
      readonly maxMs: number;
    }
  | { readonly kind: 'truncate' | 'garbage'; readonly probability: number };

export interface LinkTarget {
  readonly host: string;
  readonly port: number;
}

/** The purpose of a connection: votes, or hints of releases. */
export type ConnectionKind = 'commands' | 'hints';

/** The harm that a link did to a connection; it ended `at`, or was replaced then by a client that noticed by itself. */
export interface CutConnection {
  readonly kind: ConnectionKind;
  readonly from: number;
  readonly at: number;
}

/**
 * A stretch of network between clients and one server: a loopback port behind which everything gets to the server, or
 * doesn't.
 *
 * The system shakes hands with a client at once, also where nothing gets through: what it sends on a connection that began
 * under `hold` or `lose` waits in the link for the next mode. A server that is down can't refuse a client: the client is
 * accepted and then reset.
 */
export class Link {
  mode: LinkMode = { kind: 'pass' };
  /** Connections so far, also those that were reset right away. */
  accepted = 0;
  readonly #connections = new Set<LinkConnection>();
  readonly #listener: Server;
  #resetsAfterRequest = false;

  private constructor(
    /** The destination of new connections. */
    public target: LinkTarget,
    readonly random: SeededRandom,
    readonly noteCut: (cut: CutConnection) => void,
  ) {
    this.#listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) =>
      this.#accept(client),
    );
  }

  /** `noteCut` is called for each connection that the link ends for its client. */
  static async open(
    target: LinkTarget,
    random = new SeededRandom(1),
    noteCut: (cut: CutConnection) => void = () => undefined,
  ): Promise<Link> {
    const link = new Link(target, random, noteCut);
    await new Promise<void>((resolve) => link.#listener.listen(0, '127.0.0.1', resolve));
    return link;
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** The connections with an end that is still open. */
  get openConnections(): number {
    return this.#connections.size;
  }

  /** The connections that clients have not ended. */
  get connections() {
    return [...this.#connections]
      .filter(({ isLeft }) => !isLeft)
      .map(({ id, kind, isForgotten }) => ({ id, kind, isForgotten }));
  }

  /** Changes the mode at once and for all connections, and calls off what `resetAfterRequest` has not met yet. */
  setMode(mode: LinkMode): void {
    this.mode = mode;
    this.#resetsAfterRequest = false;
    for (const connection of this.#connections) connection.modeChanged();
  }

  /** Lets nothing through any more on the connections that are open now, as behind a NAT that forgot them: nobody is notified. */
  forget(kinds: readonly ConnectionKind[] = ['commands', 'hints']): void {
    for (const connection of this.#connections)
      if (kinds.includes(connection.kind)) connection.forget();
  }

  resetConnections(): void {
    for (const connection of this.#connections) connection.reset();
  }

  /** The server executes the next chunk of requests, its replies are lost, and its connection is reset. */
  resetAfterRequest(): void {
    this.#resetsAfterRequest = true;
  }

  /** Whether this request is that one; true only once. */
  takeResetAfterRequest(): boolean {
    const isDue = this.#resetsAfterRequest;
    this.#resetsAfterRequest = false;
    return isDue;
  }

  /** Gives each connection of a client one to the new target, as a proxy does when it fails over. */
  async followTarget(): Promise<void> {
    await Promise.all(Array.from(this.#connections, (connection) => connection.follow()));
  }

  async close(): Promise<void> {
    this.#listener.close();
    for (const connection of this.#connections) connection.reset();
  }

  #accept(client: Socket): void {
    this.accepted += 1;
    client.on('error', () => undefined);
    if (this.mode.kind === 'reset') return resetSocket(client);
    const connection = new LinkConnection(client, this, `${this.port}/${this.accepted}`);
    this.#connections.add(connection);
    void connection.closed.then(() => this.#connections.delete(connection));
  }
}
