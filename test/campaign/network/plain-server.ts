import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

/** A TCP server that keeps what it receives and answers nothing, for what can't be made to happen with Redis. */
export class PlainServer {
  readonly host = '127.0.0.1';
  readonly #server: Server;
  readonly sockets: Socket[] = [];
  received = '';

  private constructor() {
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      this.sockets.push(socket);
      socket.on('data', (bytes) => (this.received += bytes.toString('latin1')));
      socket.on('error', () => undefined);
    });
  }

  static async start(): Promise<PlainServer> {
    const plain = new PlainServer();
    plain.#server.listen(0, plain.host);
    await once(plain.#server, 'listening');
    return plain;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  stop(): void {
    for (const socket of this.sockets) socket.destroy();
    this.#server.close();
  }
}
