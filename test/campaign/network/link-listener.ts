import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../support/redis-servers/free-port.ts';

const HOST = '127.0.0.1';
const PORTS_TRIED = 20;
const REOPEN_LIMIT_MS = 10_000;

/** Listens on a loopback port, can stop listening at once, and comes back on the same port. */
export class LinkListener {
  readonly port: number;
  readonly #accept: (socket: Socket) => void;
  #server: Server | undefined;
  #isWanted = true;

  private constructor(port: number, accept: (socket: Socket) => void, server: Server) {
    this.port = port;
    this.#accept = accept;
    this.#server = server;
  }

  /** Listens on a port that was free, and is outside of those which the system gives to outgoing connections. */
  static async listen(accept: (socket: Socket) => void): Promise<LinkListener> {
    for (let tries = 1; ; tries += 1) {
      const port = await freePort();
      try {
        return new LinkListener(port, accept, await listenOn(port, accept));
      } catch (error) {
        if (!isTaken(error) || tries === PORTS_TRIED) throw error;
      }
    }
  }

  /** Connections are refused from now on; accepted ones stay. */
  shut(): void {
    this.#isWanted = false;
    this.#server?.close();
    this.#server = undefined;
  }

  /**
   * Resolves when it listens again, or has been shut meanwhile.
   * @throws {Error} EADDRINUSE when somebody else keeps the port for long
   */
  async open(): Promise<void> {
    this.#isWanted = true;
    const deadline = performance.now() + REOPEN_LIMIT_MS;
    while (this.#isWanted && this.#server === undefined) {
      try {
        const server = await listenOn(this.port, this.#accept);
        if (this.#isWanted) this.#server = server;
        else server.close();
      } catch (error) {
        // Taken perhaps by another call.
        if (!isTaken(error) || performance.now() > deadline) throw error;
        await sleep(20);
      }
    }
  }
}

async function listenOn(port: number, accept: (socket: Socket) => void): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, accept);
  server.listen({ port, host: HOST });
  await once(server, 'listening');
  return server;
}

function isTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
}
