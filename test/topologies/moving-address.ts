import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { RedisServer } from '../support/redis-servers/index.ts';

/**
 * Fate of the connections of clients when the address moves: they are `reset`; they `stay` on the server they
 * have; or a proxy keeps them, and gives each a connection to the new server once the old one has answered (`follow`).
 */
export type Connections = 'reset' | 'stay' | 'follow';

/** An address in front of several servers. */
export class MovingAddress {
  readonly #routes = new Set<Route>();

  private constructor(
    private readonly server: Server,
    private target: RedisServer,
  ) {
    server.on('connection', (client) => {
      const route = new Route(client, this.target);
      this.#routes.add(route);
      client.on('close', () => this.#routes.delete(route));
    });
  }

  static async open(target: RedisServer): Promise<MovingAddress> {
    const server = createServer({ noDelay: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new MovingAddress(server, target);
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** New connections lead to this server from now on; resolves when old ones were treated as well. */
  async moveTo(target: RedisServer, connections: Connections): Promise<void> {
    this.target = target;
    const routes = [...this.#routes];
    if (connections === 'reset') for (const route of routes) route.reset();
    if (connections === 'follow') await Promise.all(routes.map((route) => route.follow(target)));
  }

  async close(): Promise<void> {
    this.server.close();
    await this.moveTo(this.target, 'reset');
  }
}

/** A client's connection, and the one behind it. */
class Route {
  #back: Socket;

  constructor(
    private readonly client: Socket,
    target: RedisServer,
  ) {
    client.on('error', () => undefined).on('close', () => this.#back.destroy());
    client.on('data', (bytes) => this.#back.write(bytes));
    this.#back = this.#connect(target);
  }

  reset(): void {
    this.client.destroy();
  }

  /** A server answers what it was sent before it closes a half-closed connection: no reply is lost, none comes twice. */
  async follow(target: RedisServer): Promise<void> {
    const old = this.#back;
    this.client.pause();
    old.off('close', this.#closed).end();
    await once(old, 'close');
    this.#back = this.#connect(target);
    this.client.resume();
  }

  readonly #closed = (): void => void this.client.destroy();

  #connect({ host, port }: RedisServer): Socket {
    return connect({ host, port, noDelay: true })
      .on('error', () => undefined)
      .on('data', (bytes) => this.client.write(bytes))
      .on('close', this.#closed);
  }
}
