import { Socket } from 'node:net';
import { historyNow } from '../../history/lock-history.ts';
import type { CutConnection } from '../campaign-event.ts';
import { type Direction, letsConnectionsBegin, type Treatment, treatmentOf } from './link-mode.ts';
import type { ConnectionKind } from './network-command.ts';
import { type LinkState, OneWay } from './one-way.ts';
import { ReplyBoundary } from './reply-boundary.ts';
import { resetSocket, whenWritten } from './reset-socket.ts';

/** Server to which a link leads. */
export interface LinkTarget {
  readonly host: string;
  readonly port: number;
}

/** Part of a link that its connection uses. */
export interface ConnectionLink extends LinkState {
  readonly target: LinkTarget;
  /** Whether this request is the one after whose execution the connection is to be reset; true only once. */
  takeResetAfterRequest(): boolean;
  /** Notes that this connection is over for its client, and the link is to blame. */
  noteCut(cut: CutConnection): void;
}

/** A single byte is no error for ioredis before the next one arrives. */
const SHORTEST_GARBAGE = 2;
const LONGEST_GARBAGE = 64;
const SUBSCRIBES = ['\r\nsubscribe\r\n', '\r\nSUBSCRIBE\r\n'];

/** Accepted connection and its counterpart to the target. */
export class LinkConnection {
  /** Resolves when both ends are gone. */
  readonly closed: Promise<unknown>;
  kind: ConnectionKind = 'commands';
  /** The client has ended it. */
  isLeft = false;
  readonly #link: ConnectionLink;
  readonly #client: Socket;
  readonly #server = new Socket({ allowHalfOpen: true }).setNoDelay(true);
  readonly #requests: OneWay;
  readonly #replies: OneWay;
  readonly #boundary = new ReplyBoundary();
  /** The handshake doesn't get through: the target knows nothing of this connection yet. */
  #isWaiting: boolean;
  #isOver = false;
  #swallowsReplies = false;
  #forgottenAt: number | undefined;

  /** @param number its place among those of its link */
  constructor(
    client: Socket,
    link: ConnectionLink,
    readonly number: number,
  ) {
    const server = this.#server;
    this.#client = client;
    this.#link = link;
    this.#isWaiting = !letsConnectionsBegin(link.mode);
    const [there, back] = [this.#treatment('requests'), this.#treatment('replies')];
    const [ends, reversed] = [
      { source: client, target: server },
      { source: server, target: client },
    ];
    this.#requests = new OneWay(ends, link, there, (bytes) => this.#writeRequest(bytes));
    this.#replies = new OneWay(reversed, link, back, (bytes) => this.#writeReply(bytes));
    this.#noteLostHandshake();
    this.closed = Promise.all([closed(client), closed(server)]);
    this.#listen();
    if (!this.#isWaiting) this.#connect();
  }

  get isForgotten(): boolean {
    return this.#forgottenAt !== undefined;
  }

  /** Nothing gets through from now on, in whatever mode, and nothing tells anybody so. */
  forget(): void {
    if (this.#isOver) return;
    this.#forgottenAt ??= historyNow();
    this.#link.counts.forgotten += 1;
    this.#stop();
  }

  /** The mode of the link has changed. */
  modeChanged(): void {
    if (this.#isOver) return;
    const { mode } = this.#link;
    const isCut = mode.kind === 'reset' || mode.kind === 'refuse';
    const isHealed = this.#isWaiting && letsConnectionsBegin(mode);
    if (isHealed) this.#isWaiting = false;
    this.#noteLostHandshake();
    const requests = this.#treatment('requests');
    const replies = this.#treatment('replies');
    const hasHole =
      (this.#requests.hasLost && requests !== 'lose') ||
      (this.#replies.hasLost && replies !== 'lose');
    if (isCut || hasHole) return this.reset();
    if (isHealed) this.#connect();
    this.#requests.treat(requests);
    this.#replies.treat(replies);
  }

  /** Resets both ends, whatever the mode. */
  reset(): void {
    if (this.#isOver) return;
    if (!this.#swallowsReplies) {
      this.#link.counts.resets += 1;
      this.#noteCut();
    }
    this.#stop();
    resetSocket(this.#client);
    resetSocket(this.#server);
  }

  /** Closes both ends at once. */
  destroy(): void {
    this.#stop();
    this.#client.destroy();
    this.#server.destroy();
  }

  #noteCut(from?: number): void {
    const at = historyNow();
    this.#link.noteCut({ kind: this.kind, from: from ?? at, at });
  }

  /** Notes also the end of a connection that was forgotten: the trouble ends when the client gives it up. */
  #clientLeft(): void {
    if (this.isLeft) return;
    this.isLeft = true;
    if (this.#forgottenAt === undefined) return;
    this.#noteCut(this.#forgottenAt);
    this.#client.destroy();
  }

  #connect(): void {
    const { host, port } = this.#link.target;
    this.#server.connect({ host, port });
  }

  #noteLostHandshake(): void {
    if (this.#isWaiting && this.#link.mode.kind === 'lose') this.#requests.hasLost = true;
  }

  #stop(): void {
    this.#isOver = true;
    this.#requests.stop();
    this.#replies.stop();
  }

  #treatment(direction: Direction): Treatment {
    const { mode } = this.#link;
    if (this.#isWaiting && (mode.kind === 'hold' || mode.kind === 'lose')) return mode.kind;
    return treatmentOf(mode, direction);
  }

  #listen(): void {
    const { counts } = this.#link;
    this.#client
      .on('data', (bytes: Buffer) => {
        if (SUBSCRIBES.some((word) => bytes.includes(word))) this.kind = 'hints';
        if (this.isForgotten) counts.lostChunks += 1;
        else this.#requests.carry(bytes);
      })
      .on('end', () => {
        this.#clientLeft();
        this.#requests.carry('end');
      })
      .on('error', () => {
        this.#clientLeft();
        this.#requests.carry('reset');
      });
    this.#server
      .on('data', (bytes: Buffer) => {
        if (this.#swallowsReplies || this.isForgotten) counts.lostChunks += 1;
        else this.#replies.carry(bytes);
      })
      .on('end', () => this.#replies.carry(this.#swallowsReplies ? 'reset' : 'end'))
      .on('error', () => this.#replies.carry('reset'));
  }

  #writeRequest(bytes: Buffer): boolean {
    const { counts } = this.#link;
    const server = this.#server;
    if (!this.#link.takeResetAfterRequest()) return server.write(bytes);
    // The server meets the end of the stream only behind the request: it does what it is asked, and then closes.
    counts.resets += 1;
    this.#noteCut();
    this.#swallowsReplies = true;
    this.#requests.stop();
    server.write(bytes);
    whenWritten(server, () => server.end());
    return true;
  }

  #writeReply(bytes: Buffer): boolean {
    const { mode, chance, counts } = this.#link;
    const isBetweenReplies = this.#boundary.isBetweenReplies;
    this.#boundary.follow(bytes);
    if (mode.kind === 'truncate' && bytes.length > 1 && chance.happens(mode.probability)) {
      return this.#cut(bytes.subarray(0, chance.integer(1, bytes.length - 1)));
    }
    // Inside a bulk string garbage would be data.
    if (mode.kind === 'garbage' && isBetweenReplies && chance.happens(mode.probability)) {
      counts.garbledChunks += 1;
      this.#noteCut();
      return this.#client.write(this.#garbage());
    }
    return this.#client.write(bytes);
  }

  #cut(part: Buffer): boolean {
    const { counts } = this.#link;
    counts.truncatedChunks += 1;
    counts.resets += 1;
    this.#noteCut();
    this.#stop();
    this.#client.write(part, () => resetSocket(this.#client));
    resetSocket(this.#server);
    return true;
  }

  /** Bytes that each have their highest bit set: no type mark of RESP, no line end. */
  #garbage(): Buffer {
    const { chance } = this.#link;
    const length = chance.integer(SHORTEST_GARBAGE, LONGEST_GARBAGE);
    return Buffer.from(Array.from({ length }, () => chance.integer(0x80, 0xff)));
  }
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}
