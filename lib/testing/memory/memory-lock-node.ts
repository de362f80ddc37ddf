import type { Timers } from '../../core/environment.ts';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  InspectReply,
  InspectRequest,
  JoinReply,
  JoinRequest,
  LockNode,
  LockNodeListener,
  NodeFacts,
  NodeFailure,
  ReleaseReply,
  ReleaseRequest,
} from '../../core/nodes/lock-node.ts';
import { systemEnvironment } from '../../core/system-environment.ts';
import { executeWith, NOSCRIPT, NOT_CONNECTED, PlannedFaults } from './memory-fault.ts';
import type { MemoryCommandName, MemoryFault } from './memory-fault.ts';
import type { MemoryCommand } from './memory-connection.ts';
import { MemoryLink } from './memory-link.ts';
import { MemoryLockServer } from './memory-lock-server.ts';
import type { MemorySnapshot } from './memory-state.ts';

export interface MemoryLockNodeOptions {
  /** What messages call this node. @default `memory:1`, counting up */
  readonly address?: string;
  /** Round trip, ms; 0 = a few microtasks, so that also tests with fake timers get answers. @default 0 */
  readonly latencyMs?: number;
  /** Pause before a lost connection is made anew, ms. @default 5 */
  readonly reconnectDelayMs?: number;
  /** Carries latency and reconnects. @default the system's, which never keep a process alive */
  readonly timers?: Timers;
}

let nodeCount = 0;

/**
 * One process's connection to a {@link MemoryLockServer}: a `LockNode` without a network, with faults to order.
 *
 * Commands and replies keep their order, and every answer comes asynchronously. A fault stays until its opposite is
 * called; all of them are safe to call at any time.
 */
export class MemoryLockNode implements LockNode {
  readonly address: string;
  /** The server behind this node. Other nodes may share it. */
  readonly server: MemoryLockServer;
  readonly #link: MemoryLink;
  readonly #faults = new PlannedFaults();
  readonly #watched = new Set<string>();
  #listener: LockNodeListener | undefined;

  constructor(
    server: MemoryLockServer = new MemoryLockServer(),
    options: MemoryLockNodeOptions = {},
  ) {
    const { timers = systemEnvironment.timers, latencyMs = 0, reconnectDelayMs = 5 } = options;
    this.server = server;
    this.address = options.address ?? `memory:${++nodeCount}`;
    this.#link = new MemoryLink(server, timers, latencyMs, reconnectDelayMs);
  }

  /** Round trip of what is sent from now on, ms. */
  get latencyMs(): number {
    return this.#link.latencyMs;
  }

  set latencyMs(latencyMs: number) {
    this.#link.latencyMs = latencyMs;
  }

  /** @throws Error when it is open already: one node belongs to one lock service (after `close` it may be opened again) */
  open(listener: LockNodeListener): void {
    if (this.#link.isOpen) {
      throw new Error(
        `${this.address} is already open: give each lock service nodes of its own; they may share a server.`,
      );
    }
    this.#listener = listener;
    this.#link.open({
      opened: () => this.#opened(),
      closed: (message) => listener.closed(message),
      published: (channel, holder) => this.#hint(channel, holder),
    });
  }

  join(request: JoinRequest, settle: (reply: JoinReply) => void): void {
    this.#send<JoinReply>('join', () => this.server.join(request), settle);
  }

  acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): boolean {
    const run = () => (this.server.knowsScripts ? this.server.acquire(request) : NOSCRIPT);
    return this.#send<AcquireReply>('acquire', run, settle, request);
  }

  extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): boolean {
    const run = () => (this.server.knowsScripts ? this.server.extend(request) : NOSCRIPT);
    return this.#send<ExtendReply>('extend', run, settle, request);
  }

  release(request: ReleaseRequest, settle: (reply: ReleaseReply) => void): boolean {
    return this.#send<ReleaseReply>('release', () => this.server.release(request), settle, request);
  }

  flush(): void {
    this.#link.connection?.flush();
  }

  withdraw(request: AcquireRequest | ExtendRequest): boolean {
    return this.#link.connection?.withdraw(request) ?? false;
  }

  inspect(request: InspectRequest, settle: (reply: InspectReply) => void): void {
    this.#send<InspectReply>('inspect', () => this.server.inspect(request), settle);
  }

  examine(settle: (reply: NodeFacts | NodeFailure) => void): void {
    this.#send<NodeFacts | NodeFailure>('examine', () => this.server.examine(), settle);
  }

  watch(lockName: string): void {
    if (this.#watched.has(lockName)) return;
    this.#watched.add(lockName);
    this.#subscribe(lockName);
  }

  unwatch(lockName: string): void {
    this.#watched.delete(lockName);
    this.#link.unsubscribe(lockName);
  }

  async close(): Promise<void> {
    this.#link.close();
    this.#watched.clear();
  }

  /** A stalled network path: nothing passes, the connection stays. For a stopped process see `server.freeze()`. */
  freeze(): void {
    this.#link.freeze();
  }

  /** What piled up while frozen is delivered, in order. */
  resume(): void {
    this.#link.resume();
  }

  /** Breaks the connection from the server's side: commands it has not executed are lost. It is made anew at once. */
  disconnect(): void {
    this.#link.breakOff('disconnected');
  }

  /** Kills the server. Nothing connects until `restart`. */
  kill(): void {
    this.server.kill();
  }

  /** Starts the server anew: see {@link MemoryLockServer.restart}. */
  restart(options: { readonly keepData: boolean; readonly snapshot?: MemorySnapshot }): void {
    this.server.restart(options);
  }

  /** Lets the next command (of this kind) go wrong, `times` times. */
  failNext(
    fault: MemoryFault,
    options: { readonly command?: MemoryCommandName; readonly times?: number } = {},
  ): void {
    this.#faults.add(fault, options.command, options.times ?? 1);
  }

  /** Forgets the planned faults that nothing has met yet. */
  clearFaults(): void {
    this.#faults.clear();
  }

  #opened(): void {
    for (const lockName of this.#watched) this.#subscribe(lockName);
    this.#listener?.opened();
  }

  /** With a request it is collected, so that it can be withdrawn. */
  #send<Reply>(
    name: MemoryCommandName,
    run: () => Reply,
    settle: (reply: Reply) => void,
    request?: object,
  ): boolean {
    const { connection } = this.#link;
    if (connection === undefined) {
      settle(NOT_CONNECTED as Reply);
      return false;
    }
    const fault = this.#faults.take(name);
    const command: MemoryCommand = {
      request,
      execute: () => (fault === undefined ? run() : executeWith(fault, run)),
      settle: (reply) => settle(reply as Reply),
    };
    if (request !== undefined) return connection.collect(command);
    connection.send(command);
    return false;
  }

  #subscribe(lockName: string): void {
    this.#link.connection?.send({
      execute: () => {
        if (this.#watched.has(lockName)) this.#link.subscribe(lockName);
        return 'subscribed';
      },
      settle: (reply) => {
        if (reply === 'subscribed') this.#hint(lockName, null);
      },
    });
  }

  #hint(lockName: string, holder: string | null): void {
    if (this.#watched.has(lockName)) this.#listener?.hint(lockName, holder);
  }
}
