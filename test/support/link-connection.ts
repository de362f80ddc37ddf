import { once } from 'node:events';
import { Socket } from 'node:net';
import { historyNow } from '../history/lock-history.ts';
import type { ConnectionKind, Direction, Link } from './link.ts';

/** Bytes, or that the source closed its stream. */
type Cargo = Buffer | 'end';

/** A single byte is no error for ioredis before the next one arrives. */
const SHORTEST_GARBAGE = 2;
const LONGEST_GARBAGE = 64;
const SUBSCRIBES = ['\r\nsubscribe\r\n', '\r\nSUBSCRIBE\r\n'];

/** A connection that was accepted, and its counterpart to the server. */
export class LinkConnection {
  /** Resolves when both ends are gone. */
  readonly closed: Promise<unknown>;
  kind: ConnectionKind = 'commands';
  /** The client has ended it. */
  isLeft = false;
  #server: Socket;
  readonly #kept = {
    requests: [] as { readonly cargo: Cargo; readonly dueAt: number }[],
    replies: [] as { readonly cargo: Cargo; readonly dueAt: number }[],
  };
  /** The server knows nothing of this connection yet. */
  #isWaiting = true;
  #hasLost = false;
  #isOver = false;
  #swallowsReplies = false;
  #isBetweenReplies = true;
  #forgottenAt: number | undefined;

  constructor(
    private readonly client: Socket,
    private readonly link: Link,
    readonly id: string,
  ) {
    const server = this.#newServer();
    this.#server = server;
    this.closed = Promise.all(
      [client, server].map((socket) => new Promise((resolve) => socket.once('close', resolve))),
    );
    client
      .on('data', (bytes: Buffer) => {
        if (SUBSCRIBES.some((word) => bytes.includes(word))) this.kind = 'hints';
        this.#carry('requests', bytes);
      })
      .on('end', () => this.#clientLeft())
      .on('error', () => this.#clientLeft());
    this.modeChanged();
  }

  get isForgotten(): boolean {
    return this.#forgottenAt !== undefined;
  }

  /** Lets nothing through from now on, in whatever mode, and nothing tells anybody so. */
  forget(): void {
    this.#forgottenAt ??= historyNow();
  }

  /** The link has another mode. */
  modeChanged(): void {
    if (this.#isOver || this.isForgotten) return;
    const { kind } = this.link.mode;
    if (kind === 'lose' && this.#isWaiting) this.#hasLost = true;
    else if (kind === 'reset' || (this.#hasLost && kind !== 'lose')) return this.reset();
    if (this.#isWaiting && kind !== 'hold' && kind !== 'lose') {
      this.#isWaiting = false;
      this.#server.connect(this.link.target);
    }
    this.#deliver('requests');
    this.#deliver('replies');
  }

  /** Goes on with the target of today. A server answers what it was sent before it closes: no reply is lost, none comes twice. */
  async follow(): Promise<void> {
    const old = this.#server;
    this.client.pause();
    old.off('end', this.#serverLeft).off('error', this.#serverLeft);
    old.on('error', () => undefined).end();
    await once(old, 'close');
    this.#server = this.#newServer().connect(this.link.target);
    this.client.resume();
  }

  /** Resets both ends, whatever the mode. */
  reset(): void {
    if (this.#isOver) return;
    if (!this.#swallowsReplies) this.#noteCut();
    this.#isOver = true;
    resetSocket(this.client);
    resetSocket(this.#server);
  }

  readonly #serverLeft = (): void => {
    if (this.#swallowsReplies) resetSocket(this.client);
    else this.#carry('replies', 'end');
  };

  #newServer(): Socket {
    return new Socket({ allowHalfOpen: true })
      .setNoDelay(true)
      .on('data', (bytes: Buffer) => this.#swallowsReplies || this.#carry('replies', bytes))
      .on('end', this.#serverLeft)
      .on('error', this.#serverLeft);
  }

  #noteCut(from = historyNow()): void {
    this.link.noteCut({ kind: this.kind, from, at: historyNow() });
  }

  /** Notes also the end of a connection that was forgotten: the trouble ends when the client gives it up. */
  #clientLeft(): void {
    if (this.isLeft) return;
    this.isLeft = true;
    if (this.#forgottenAt === undefined) return this.#carry('requests', 'end');
    this.#noteCut(this.#forgottenAt);
    this.client.destroy();
  }

  #treatment(direction: Direction): 'pass' | 'hold' | 'lose' | 'delay' {
    const { mode } = this.link;
    if (mode.kind !== 'hold' && mode.kind !== 'lose' && mode.kind !== 'delay') return 'pass';
    const isMeant = this.#isWaiting || (mode.direction ?? direction) === direction;
    return isMeant ? mode.kind : 'pass';
  }

  #carry(direction: Direction, cargo: Cargo): void {
    if (this.#isOver || this.isForgotten) return;
    const { mode, random } = this.link;
    const treatment = this.#treatment(direction);
    if (treatment === 'lose') {
      this.#hasLost = true;
      return;
    }
    const isDelayed = treatment === 'delay' && mode.kind === 'delay';
    const delayMs = isDelayed ? random.between(mode.minMs, mode.maxMs) : 0;
    this.#kept[direction].push({ cargo, dueAt: performance.now() + delayMs });
    this.#deliver(direction);
  }

  /** Delivers what is due, which waits all the same for what came before it. */
  #deliver(direction: Direction): void {
    const kept = this.#kept[direction];
    while (kept.length > 0 && !this.#isOver && !this.isForgotten) {
      const treatment = this.#treatment(direction);
      if (treatment === 'hold') return;
      const waitMs = kept[0]!.dueAt - performance.now();
      if (treatment === 'delay' && waitMs > 0) {
        setTimeout(() => this.#deliver(direction), waitMs);
        return;
      }
      const { cargo } = kept.shift()!;
      if (cargo === 'end') (direction === 'requests' ? this.#server : this.client).end();
      else if (direction === 'requests') this.#request(cargo);
      else this.#reply(cargo);
    }
  }

  #request(bytes: Buffer): void {
    if (this.#swallowsReplies) return;
    this.#server.write(bytes);
    if (!this.link.takeResetAfterRequest()) return;
    // The server meets the end of the stream behind the request: it does what it is asked, and then closes.
    this.#noteCut();
    this.#swallowsReplies = true;
    this.#server.end();
  }

  #reply(bytes: Buffer): void {
    const { mode, random } = this.link;
    // Garbage inside a bulk string would be data.
    const isWhole = this.#isBetweenReplies && '+-:*$'.includes(String.fromCharCode(bytes[0]!));
    this.#isBetweenReplies = bytes.at(-1) === 10;
    const integer = (from: number, to: number): number =>
      from + Math.floor(random.fraction() * (to - from + 1));
    if (mode.kind === 'truncate' && bytes.length > 1 && random.fraction() < mode.probability) {
      this.#noteCut();
      this.#isOver = true;
      const part = bytes.subarray(0, integer(1, bytes.length - 1));
      this.client.write(part, () => resetSocket(this.client));
      resetSocket(this.#server);
    } else if (mode.kind === 'garbage' && isWhole && random.fraction() < mode.probability) {
      this.#noteCut();
      const length = integer(SHORTEST_GARBAGE, LONGEST_GARBAGE);
      // The highest bit of every byte is set: no type mark of RESP, no line end.
      this.client.write(Buffer.from(Array.from({ length }, () => integer(0x80, 0xff))));
    } else this.client.write(bytes);
  }
}

/** Closes a connection with a reset (RST): the other end gets an error. A socket that is not connected is destroyed. */
export function resetSocket(socket: Socket): void {
  if (socket.destroyed) return;
  if (socket.pending) socket.destroy();
  // Node.js refuses to reset between shutdown() and its completion, and would leak the socket.
  else if (socket.writableEnded && !socket.writableFinished) {
    socket.once('finish', () => resetSocket(socket));
  } else socket.resetAndDestroy();
}
