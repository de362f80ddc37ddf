import { NOT_CONNECTED } from './memory-fault.ts';
import type { MemoryLockServer, MemoryServerClient } from './memory-lock-server.ts';

export interface MemoryConnectionOwner {
  /** Runs `arrive` after one way through the network. */
  travel(arrive: () => void): void;
  /** Nothing passes this connection at the moment. */
  isFrozen(): boolean;
  /** The connection ended, not by `close`; its commands are settled. */
  lost(message: string): void;
  published(message: string): void;
}

/** Direction of a connection: how to deliver what was sent, in order, and how much of it has arrived. */
interface Way {
  sent: (() => void)[];
  arrived: number;
}

/** Connection to a {@link MemoryLockServer}: both directions keep their order. */
export class MemoryConnection implements MemoryServerClient {
  /** Whether it was answered: what is sent now reaches the server unless something breaks. */
  isUp = false;
  readonly #server: MemoryLockServer;
  readonly #owner: MemoryConnectionOwner;
  readonly #unsettled = new Set<(reply: unknown) => void>();
  readonly #requests: Way = { sent: [], arrived: 0 };
  readonly #replies: Way = { sent: [], arrived: 0 };
  #closed = false;

  constructor(server: MemoryLockServer, owner: MemoryConnectionOwner) {
    this.#server = server;
    this.#owner = owner;
  }

  /**
   * @param execute runs on the server; `undefined`: no reply will ever come
   * @param settle called once: with the reply, or with a failure when the connection ends first
   */
  send(execute: () => unknown, settle: (reply: unknown) => void): void {
    // A command that is settled when the connection closes may lead to the next one at once.
    if (this.#closed) return settle(NOT_CONNECTED);
    this.#unsettled.add(settle);
    this.#travel(this.#requests, () => {
      const reply = execute();
      if (this.#closed && this.#requests.sent.length === 0) this.#server.disconnect(this);
      if (reply === undefined) return;
      this.#reply(() => {
        if (this.#unsettled.delete(settle)) settle(reply);
      });
    });
  }

  drain(): void {
    for (const way of [this.#requests, this.#replies]) {
      while (way.arrived > 0 && !this.#server.frozen && !this.#owner.isFrozen()) {
        way.arrived -= 1;
        way.sent.shift()?.();
      }
    }
  }

  published(message: string): void {
    this.#reply(() => this.#owner.published(message));
  }

  breakOff(message: string): void {
    this.#requests.sent = [];
    this.#server.disconnect(this);
    if (this.#closed) return;
    this.close(message);
    this.#owner.lost(message);
  }

  /** Our side ends it: what was sent still arrives and is executed, however late; no one receives the replies. */
  close(message: string): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#replies.sent = [];
    if (this.#requests.sent.length === 0) this.#server.disconnect(this);
    const said = `connection closed: ${message}`;
    const unsettled = [...this.#unsettled];
    this.#unsettled.clear();
    for (const settle of unsettled)
      settle({ ...NOT_CONNECTED, nothingWritten: false, message: said });
  }

  #reply(deliver: () => void): void {
    if (!this.#closed) this.#travel(this.#replies, deliver);
  }

  #travel(way: Way, deliver: () => void): void {
    way.sent.push(deliver);
    this.#owner.travel(() => {
      way.arrived += 1;
      this.drain();
    });
  }
}
