import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { LinkTarget } from './link.ts';

type Pick = () => LinkTarget | Promise<LinkTarget>;

/** A TCP balancer: each connection leads to the server that `pick` names for it. */
export class Balancer {
  readonly #sockets = new Set<Socket>();
  readonly #listener: Server;

  private constructor(pick: Pick) {
    this.#listener = createServer((client) => void this.#lead(client, pick));
  }

  /** Listens on a loopback address, such as 127.0.0.2, and on a free port unless one is given. */
  static async open(pick: Pick, host = '127.0.0.1', port = 0): Promise<Balancer> {
    const balancer = new Balancer(pick);
    await new Promise<void>((resolve, reject) => {
      balancer.#listener.once('error', reject).listen(port, host, resolve);
    });
    return balancer;
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Ends the connections that are open now. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async #lead(client: Socket, pick: Pick): Promise<void> {
    const { host, port } = await pick();
    const server = connect({ host, port });
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }

  async close(): Promise<void> {
    this.#listener.close();
    this.cut();
  }
}
