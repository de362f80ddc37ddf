import { EventEmitter, once } from 'node:events';
import { connect, type Socket } from 'node:net';

const PATIENCE_MS = 20_000;

/** A plain TCP client that keeps what it receives. */
export class RawClient {
  readonly socket: Socket;
  /** Resolves when the other end has closed: with `end`, or the code of the error. */
  readonly ended: Promise<string>;
  readonly #chunks: Buffer[] = [];
  readonly #progress = new EventEmitter();
  #length = 0;
  #isEnded = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#length += chunk.length;
      this.#progress.emit('progress');
    });
    this.ended = new Promise((resolve) => {
      const end = (reason: string): void => {
        this.#isEnded = true;
        this.#progress.emit('progress');
        resolve(reason);
      };
      socket.once('end', () => end('end'));
      socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
      socket.once('close', () => end('close'));
    });
    // Later ones, for example from writing to a connection that was reset.
    socket.on('error', () => undefined);
  }

  /** Rejects with the system's error, for example ECONNREFUSED. */
  static async connect(port: number): Promise<RawClient> {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true, allowHalfOpen: true });
    await once(socket, 'connect');
    return new RawClient(socket);
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  get received(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  get text(): string {
    return this.received.toString('latin1');
  }

  /** Sends commands at once, in the form for people: parts are separated by blanks. */
  send(...commands: string[]): void {
    this.socket.write(commands.map((command) => `${command}\r\n`).join(''));
  }

  /** Resolves when all in all so many bytes have been received; rejects when that can't be any more. */
  async until(length: number): Promise<void> {
    await this.#until(() => this.#length >= length);
  }

  /** Sends one command and resolves with its reply, without the end of its line. */
  async ask(command: string): Promise<string> {
    const before = this.text.length;
    this.send(command);
    await this.#until(() => this.text.slice(before).endsWith('\r\n'));
    return this.text.slice(before, -2);
  }

  close(): void {
    this.socket.destroy();
  }

  async #until(isDone: () => boolean): Promise<void> {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    while (!isDone()) {
      if (this.#isEnded) throw new Error(`the connection has ended after ${this.#length} bytes`);
      await once(this.#progress, 'progress', { signal }).catch(() => {
        throw new Error(`nothing more received than ${this.#length} bytes`);
      });
    }
  }
}

/** The bytes of one command. */
export function encodeCommand(...parts: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat([
    Buffer.from(`*${parts.length}\r\n`),
    ...parts.flatMap((part) => [
      Buffer.from(`$${Buffer.byteLength(part)}\r\n`),
      Buffer.from(part),
      Buffer.from('\r\n'),
    ]),
  ]);
}
