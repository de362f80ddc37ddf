import type { Socket } from 'node:net';
import { Chance } from '../../simulation/world/chance.ts';
import { type ConnectionLink, LinkConnection, type LinkTarget } from './link-connection.ts';
import type { CutConnection } from '../campaign-event.ts';
import { emptyLinkCounts } from './link-counts.ts';
import { LinkListener } from './link-listener.ts';
import type { LinkMode } from './link-mode.ts';
import type { CarriedConnection, ConnectionKind } from './network-command.ts';
import { resetSocket } from './reset-socket.ts';

/**
 * A stretch of network between clients and one server: a loopback port behind which everything gets to the server, or
 * doesn't, depending on a {@link LinkMode}.
 *
 * Where it is not like a network:
 * - The system shakes hands with a client at once, even when nothing gets through. What a client sends on a connection
 *   that began under `hold` or `lose`, in whatever direction, gets no further than to the link until the mode changes:
 *   the server could not have answered its handshake. Held, it then gets to the server; lost, it is reset.
 * - A server that is down can't refuse a client: the client is accepted and then reset.
 * - What was handed to the system of the receiver before the mode changed can't be taken back.
 */
export class TcpLink implements ConnectionLink {
  readonly counts = emptyLinkCounts();
  readonly #connections = new Set<LinkConnection>();
  #listener!: LinkListener;
  #mode: LinkMode = { kind: 'pass' };
  #resetsAfterRequest = false;

  private constructor(
    readonly target: LinkTarget,
    readonly chance: Chance,
    readonly noteCut: (cut: CutConnection) => void,
  ) {}

  /**
   * Listens on a free loopback port, in mode `pass`. `chance` decides where a mode leaves something to it; `noteCut` is
   * called for each connection that the link ends for its client.
   */
  static async open(
    target: LinkTarget,
    chance = new Chance(1),
    noteCut: (cut: CutConnection) => void = () => undefined,
  ): Promise<TcpLink> {
    const link = new TcpLink(target, chance, noteCut);
    link.#listener = await LinkListener.listen((client) => link.#accept(client));
    return link;
  }

  /** Stays the same, also over `refuse`. */
  get port(): number {
    return this.#listener.port;
  }

  get mode(): LinkMode {
    return this.#mode;
  }

  /** Connections with an end that is still open, also those of which the server does not know yet. */
  get openConnections(): number {
    return this.#connections.size;
  }

  /** Connections that clients have not ended. */
  get connections(): CarriedConnection[] {
    return [...this.#connections].flatMap((connection) =>
      connection.isLeft
        ? []
        : [
            {
              id: `${this.port}/${connection.number}`,
              kind: connection.kind,
              isForgotten: connection.isForgotten,
            },
          ],
    );
  }

  /**
   * Changes the mode, at once and for all connections, open ones and new ones, and calls off a `resetAfterRequest` that
   * has met no request yet. Resolves when it also listens again.
   * @throws {Error} EADDRINUSE when after `refuse` the port stays taken by somebody else
   */
  async setMode(mode: LinkMode): Promise<void> {
    this.#mode = mode;
    this.#resetsAfterRequest = false;
    if (mode.kind === 'refuse') this.#listener.shut();
    for (const connection of this.#connections) connection.modeChanged();
    if (mode.kind !== 'refuse') await this.#listener.open();
  }

  /** Forgets the connections of these kinds that are open now: nothing gets through, and nobody is notified, whatever the mode. */
  forgetConnections(kinds: readonly ConnectionKind[] = ['commands', 'hints']): void {
    for (const connection of this.#connections) {
      if (kinds.includes(connection.kind)) connection.forget();
    }
  }

  /** Resets the connections that are open now, from the one with this number on (the first is 1), whatever the mode. */
  resetConnections(from = 1): void {
    for (const connection of this.#connections) if (connection.number >= from) connection.reset();
  }

  /**
   * The next chunk of requests that gets to the server, on whichever connection, is the last one of its connection: the
   * server executes it, and its replies are lost. Then the client is reset.
   */
  resetAfterRequest(): void {
    this.#resetsAfterRequest = true;
  }

  takeResetAfterRequest(): boolean {
    const isDue = this.#resetsAfterRequest;
    this.#resetsAfterRequest = false;
    return isDue;
  }

  /** Closes everything; resolves when nothing is open any more. */
  async close(): Promise<void> {
    this.#listener.shut();
    const connections = [...this.#connections];
    for (const connection of connections) connection.destroy();
    await Promise.all(connections.map(({ closed }) => closed));
  }

  #accept(client: Socket): void {
    this.counts.connections += 1;
    if (this.#mode.kind === 'reset') {
      this.counts.resets += 1;
      client.on('error', () => undefined);
      resetSocket(client);
      return;
    }
    const connection = new LinkConnection(client, this, this.counts.connections);
    this.#connections.add(connection);
    void connection.closed.then(() => this.#connections.delete(connection));
  }
}
