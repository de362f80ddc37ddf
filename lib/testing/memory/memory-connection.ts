import { NOT_CONNECTED } from './memory-fault.ts';
import type { MemoryLockServer, MemoryServerClient } from './memory-lock-server.ts';

/** As many as a connection to Redis collects. */
const FLUSH_AT = 32;

/** One request on a connection. */
export interface MemoryCommand {
  /** A vote or a release: may be collected. */
  readonly request?: unknown;
  /** It waits for others also where no answer is due. */
  readonly isPatient?: boolean;
  /** Runs on the server; `undefined`: no reply will ever come. */
  execute(): unknown;
  /** Called once: with the reply, or with a failure when the connection ends first. */
  settle(reply: unknown): void;
}

export interface MemoryConnectionOwner {
  /** Runs `arrive` after one way through the network. */
  travel(arrive: () => void): void;
  /** Nothing passes this connection at the moment. */
  isFrozen(): boolean;
  /** The connection ended, not by `close`; its commands are settled. */
  lost(message: string): void;
  published(message: string): void;
}

/** One direction: how to deliver what was sent, in order, and how much of it has arrived. */
interface Way {
  sent: (() => void)[];
  arrived: number;
}

/** One connection to a {@link MemoryLockServer}: both directions keep their order. */
export class MemoryConnection implements MemoryServerClient {
  readonly #server: MemoryLockServer;
  readonly #owner: MemoryConnectionOwner;
  readonly #unsettled = new Set<MemoryCommand>();
  #collected: MemoryCommand[] = [];
  readonly #requests: Way = { sent: [], arrived: 0 };
  readonly #replies: Way = { sent: [], arrived: 0 };
  #closed = false;

  constructor(server: MemoryLockServer, owner: MemoryConnectionOwner) {
    this.#server = server;
    this.#owner = owner;
  }

  /**
   * Sends a command after what was collected. One with a request is collected instead, and true returned, unless nothing
   * else is collected and no answer is due.
   */
  send(command: MemoryCommand): boolean {
    // What is settled when it closes may lead to the next command at once.
    if (this.#closed) {
      command.settle(NOT_CONNECTED);
      return false;
    }
    this.#collected.push(command);
    const { length } = this.#collected;
    const isDue = length === 1 && this.#unsettled.size === 0 && command.isPatient !== true;
    const mayWait = length < FLUSH_AT && !isDue;
    const waits = mayWait && command.request !== undefined;
    if (!waits) this.flush();
    return waits;
  }

  flush(): void {
    const commands = this.#collected.splice(0);
    if (commands.length === 0) return;
    for (const command of commands) this.#unsettled.add(command);
    this.#travel(this.#requests, () => {
      for (const command of commands) this.#execute(command);
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

  published(_channel: string, message: string): void {
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
    for (const command of this.#collected.splice(0)) command.settle(NOT_CONNECTED);
    const failure = {
      ...NOT_CONNECTED,
      nothingWritten: false,
      message: `connection closed: ${message}`,
    };
    const unsettled = [...this.#unsettled];
    this.#unsettled.clear();
    for (const command of unsettled) command.settle(failure);
  }

  #execute(command: MemoryCommand): void {
    const reply = command.execute();
    if (this.#closed && this.#requests.sent.length === 0) this.#server.disconnect(this);
    if (reply === undefined) return;
    this.#reply(() => {
      if (this.#unsettled.delete(command)) command.settle(reply);
    });
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
