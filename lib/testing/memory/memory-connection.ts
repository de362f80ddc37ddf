import type { NodeFailure } from '../../core/nodes/lock-node.ts';
import { NOT_CONNECTED } from './memory-fault.ts';
import type { MemoryLockServer, MemoryServerClient } from './memory-lock-server.ts';

/** As many as a connection to Redis collects. */
const FLUSH_AT = 32;

/** One request on a connection. */
export interface MemoryCommand {
  /** By which it can be withdrawn. */
  readonly request?: unknown;
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
  published(channel: string, holder: string): void;
}

/** One connection to a {@link MemoryLockServer}: both directions keep their order. */
export class MemoryConnection implements MemoryServerClient {
  readonly #server: MemoryLockServer;
  readonly #owner: MemoryConnectionOwner;
  readonly #unsettled = new Set<MemoryCommand>();
  #collected: MemoryCommand[] = [];
  #requests: MemoryCommand[] = [];
  #arrivedRequests = 0;
  #replies: (() => void)[] = [];
  #arrivedReplies = 0;
  #closed = false;

  constructor(server: MemoryLockServer, owner: MemoryConnectionOwner) {
    this.#server = server;
    this.#owner = owner;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Collects a command and returns true, or sends it at once when nothing else is collected and no answer is due. */
  collect(command: MemoryCommand): boolean {
    this.#collected.push(command);
    const { length } = this.#collected;
    const isDue = length >= FLUSH_AT || (length === 1 && this.#unsettled.size === 0);
    const mayWait = !isDue && !this.#closed;
    if (!mayWait) this.flush();
    return mayWait;
  }

  /** Takes back what was collected for this request. */
  withdraw(request: unknown): boolean {
    const { length } = this.#collected;
    this.#collected = this.#collected.filter((command) => command.request !== request);
    return this.#collected.length < length;
  }

  flush(): void {
    for (const command of this.#collected.splice(0)) this.#send(command);
  }

  /** Sends a command after what was collected. */
  send(command: MemoryCommand): void {
    this.flush();
    this.#send(command);
  }

  /** Delivers what has arrived, unless something is frozen. */
  drain(): void {
    while (this.#arrivedRequests > 0 && this.#server.running && !this.#isStalled()) {
      const command = this.#requests.shift();
      this.#arrivedRequests -= 1;
      if (command !== undefined) this.#execute(command);
    }
    while (this.#arrivedReplies > 0 && !this.#isStalled()) {
      this.#arrivedReplies -= 1;
      this.#replies.shift()?.();
    }
  }

  serverDied(): void {
    this.breakOff('the server died');
  }

  serverResumed(): void {
    this.drain();
  }

  published(channel: string, holder: string): void {
    this.#reply(() => this.#owner.published(channel, holder));
  }

  /** The server's side ends it: what has not been executed is lost. */
  breakOff(message: string): void {
    this.#requests = [];
    this.#server.disconnect(this);
    if (this.#closed) return;
    this.close(message);
    this.#owner.lost(message);
  }

  /** Our side ends it: what was sent still arrives and is executed, however late; nobody receives the replies. */
  close(message: string): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#replies = [];
    if (this.#requests.length === 0) this.#server.disconnect(this);
    for (const command of this.#collected.splice(0)) command.settle(NOT_CONNECTED);
    const unsettled = [...this.#unsettled];
    this.#unsettled.clear();
    for (const command of unsettled) command.settle(unknownOutcome(message));
  }

  #send(command: MemoryCommand): void {
    // What is settled when it closes may lead to the next command at once.
    if (this.#closed) return command.settle(NOT_CONNECTED);
    this.#unsettled.add(command);
    this.#requests.push(command);
    this.#owner.travel(() => {
      this.#arrivedRequests += 1;
      this.drain();
    });
  }

  #isStalled(): boolean {
    return this.#server.frozen || this.#owner.isFrozen();
  }

  #execute(command: MemoryCommand): void {
    const reply = command.execute();
    if (this.#closed) {
      if (this.#requests.length === 0) this.#server.disconnect(this);
      return;
    }
    if (reply === undefined) return;
    this.#reply(() => {
      if (this.#unsettled.delete(command)) command.settle(reply);
    });
  }

  #reply(deliver: () => void): void {
    if (this.#closed) return;
    this.#replies.push(deliver);
    this.#owner.travel(() => {
      this.#arrivedReplies += 1;
      this.drain();
    });
  }
}

function unknownOutcome(message: string): NodeFailure {
  return {
    kind: 'failed',
    nothingWritten: false,
    reason: 'unreachable',
    message: `connection closed: ${message}`,
  };
}
