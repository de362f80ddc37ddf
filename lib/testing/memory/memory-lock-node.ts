import type { TimerHandle, Timers } from '../../core/environment.ts';
import { inModuleContext } from '../../core/module-context.ts';
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
import { MemoryConnection } from './memory-connection.ts';
import type { MemoryCommand } from './memory-connection.ts';
import { MemoryLockServer } from './memory-lock-server.ts';
import type { MemorySnapshot } from './memory-state.ts';

export interface MemoryLockNodeOptions {
  /** What messages call this node. @default `memory:1`, counting up */
  readonly address?: string;
  /** Round trip, ms; 0 = a few microtasks, so that also tests with fake timers get answers. @default 0 */
  readonly latencyMs?: number;
  /** Pause before a lost connection is made again, ms. @default 5 */
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
  /** Round trip of what is sent from now on, ms. */
  latencyMs: number;
  readonly #timers: Timers;
  readonly #reconnectDelayMs: number;
  readonly #faults = new PlannedFaults();
  readonly #watched = new Set<string>();
  #listener: LockNodeListener | undefined;
  #connection: MemoryConnection | undefined;
  /** The connection was answered: what is sent now reaches the server unless something breaks. */
  #up = false;
  /** Closed by us while requests were stuck in the network. */
  readonly #abandoned = new Set<MemoryConnection>();
  #frozen = false;
  #reconnectTimer: TimerHandle;

  constructor(
    server: MemoryLockServer = new MemoryLockServer(),
    options: MemoryLockNodeOptions = {},
  ) {
    const { timers = systemEnvironment.timers, latencyMs = 0, reconnectDelayMs = 5 } = options;
    this.server = server;
    this.address = options.address ?? `memory:${++nodeCount}`;
    this.latencyMs = latencyMs;
    this.#timers = timers;
    this.#reconnectDelayMs = reconnectDelayMs;
  }

  /** @throws Error when it is open already: one node belongs to one lock service (after `close` it may be opened again) */
  open(listener: LockNodeListener): void {
    if (this.#listener !== undefined) {
      throw new Error(
        `${this.address} is already open: give each lock service nodes of its own; they may share a server.`,
      );
    }
    this.#listener = listener;
    this.#connect();
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
    this.#connection?.flush();
  }

  withdraw(request: AcquireRequest | ExtendRequest): boolean {
    return this.#connection?.withdraw(request) ?? false;
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
    if (this.#connection) this.server.unsubscribe(lockName, this.#connection);
  }

  /** What was collected is sent, and executed however late. */
  async close(): Promise<void> {
    const connection = this.#connection;
    const listener = this.#up ? this.#listener : undefined;
    this.#listener = undefined;
    this.#connection = undefined;
    this.#up = false;
    this.#timers.clear(this.#reconnectTimer);
    this.#watched.clear();
    connection?.flush();
    if (connection && this.#frozen) this.#abandoned.add(connection);
    connection?.close('closed');
    listener?.closed('closed');
  }

  /** A stalled network path: nothing passes, the connection stays. For a stopped process see `server.freeze()`. */
  freeze(): void {
    this.#frozen = true;
  }

  /** What piled up while frozen is delivered, in order. */
  resume(): void {
    this.#frozen = false;
    for (const connection of this.#abandoned) connection.drain();
    this.#abandoned.clear();
    this.#connection?.drain();
  }

  /** Breaks the connection from the server's side: commands it has not executed are lost. It is made again at once. */
  disconnect(): void {
    this.#connection?.breakOff('disconnected');
  }

  /** Kills the server. Nothing connects until `restart`. */
  kill(): void {
    this.server.kill();
  }

  /** Starts the server again: see {@link MemoryLockServer.restart}. */
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

  #connect(): void {
    const connection: MemoryConnection = new MemoryConnection(this.server, {
      travel: (arrive) => this.#travel(arrive),
      isFrozen: () => this.#frozen,
      lost: (message) => this.#lost(connection, message),
      published: (channel, holder) => this.#hint(channel, holder),
    });
    if (!this.server.connect(connection)) return this.#reconnectLater();
    this.#connection = connection;
    // A stopped server accepts connections but answers nothing: its first answer makes this one count.
    connection.send({ execute: () => 'PONG', settle: () => this.#opened(connection) });
  }

  #opened(connection: MemoryConnection): void {
    if (this.#connection !== connection || connection.closed) return;
    this.#up = true;
    for (const lockName of this.#watched) this.#subscribe(lockName);
    this.#listener?.opened();
  }

  #lost(connection: MemoryConnection, message: string): void {
    if (this.#connection !== connection) return;
    const wasUp = this.#up;
    this.#connection = undefined;
    this.#up = false;
    this.#reconnectLater();
    if (wasUp) this.#listener?.closed(message);
  }

  #reconnectLater(): void {
    this.#timers.clear(this.#reconnectTimer);
    if (this.#listener === undefined) return;
    this.#reconnectTimer = this.#timers.set(() => this.#connect(), this.#reconnectDelayMs, true);
  }

  #travel(arrive: () => void): void {
    const deliver = () => inModuleContext(arrive);
    // Not queueMicrotask: users' fake timers replace it.
    if (this.latencyMs <= 0) void Promise.resolve().then(deliver);
    else this.#timers.set(deliver, this.latencyMs / 2, true);
  }

  /** With a request it may be collected, so that it can be withdrawn: true then. */
  #send<Reply>(
    name: MemoryCommandName,
    run: () => Reply,
    settle: (reply: Reply) => void,
    request?: object,
  ): boolean {
    const connection = this.#up ? this.#connection : undefined;
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
    const connection = this.#connection;
    if (!this.#up || connection === undefined) return;
    connection.send({
      execute: () => {
        if (this.#watched.has(lockName)) this.server.subscribe(lockName, connection);
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
