import type { Clock } from '../../core/environment.ts';
import type * as port from '../../core/nodes/lock-node.ts';
import { systemEnvironment } from '../../core/system-environment.ts';
import { NOSCRIPT } from './memory-fault.ts';
import { acquire, extend, inspect, join, list, release, revoke, wait } from './memory-scripts.ts';
import { MemoryState, type MemorySnapshot } from './memory-state.ts';

/** Reports of a server to a connection. */
export interface MemoryServerClient {
  /** The server's side ends it: what has not been executed never will be. */
  breakOff(message: string): void;
  /** Delivers what has arrived, unless something is frozen. */
  drain(): void;
  /** Message was published on a channel this connection subscribed to. */
  published(message: string): void;
}

/** The options of {@link MemoryLockServer}. */
export interface MemoryLockServerOptions {
  /** The server's own clock; only `wallMicros` is used. @default the system's */
  readonly clock?: Pick<Clock, 'wallMicros'>;
  /** The facts that the start-up checks find, for tests of those. @default a current, durable, well-configured master */
  readonly facts?: Partial<port.NodeFacts>;
  /**
   * A new server, which votes only after its restart guard, as one after {@link MemoryLockServer.restart} does. Otherwise it
   * is as one that has run for long: there is nothing it could have forgotten. @default false
   */
  readonly fresh?: boolean;
}

let startCount = 0;
const newRunId = (): string => `memory-${++startCount}`;

/**
 * Redis server in memory: the keys of the locks and what the scripts do with them, by the server's own clock.
 *
 * Its commands are synchronous and atomic; {@link MemoryLockNode} is the connection that delivers them. Several nodes (one
 * per simulated process) may share one server.
 *
 * @example
 * ```ts
 * const servers = [new MemoryLockServer(), new MemoryLockServer(), new MemoryLockServer()];
 * RedlockModule.forRoot({ nodes: createMemoryNodes(servers) });
 * servers[0]?.kill();
 * ```
 */
export class MemoryLockServer {
  /** The keys themselves, to look at or to damage in a test. */
  readonly state: MemoryState;
  /** Connections, all of them, with the channels they are subscribed to. */
  readonly #clients = new Map<MemoryServerClient, Set<string>>();
  readonly #facts: Partial<port.NodeFacts>;
  #clockOffsetMs = 0;
  #running = true;
  #frozen = false;
  /** Starts of servers whose voting scripts it knows: its own at most, since a text is loaded for the server that joined. */
  readonly #scripts = new Set<string>();

  constructor(options: MemoryLockServerOptions = {}) {
    const clock = options.clock ?? systemEnvironment.clock;
    this.#facts = options.facts ?? {};
    const nowMicros = () => clock.wallMicros() + this.#clockOffsetMs * 1000;
    this.state = new MemoryState(nowMicros, newRunId(), options.fresh !== true);
  }

  /** False after {@link kill}, until {@link restart}. */
  get running(): boolean {
    return this.#running;
  }

  /** True after {@link freeze}, until {@link resume}. */
  get frozen(): boolean {
    return this.#frozen;
  }

  /** False from a restart (or {@link forgetScripts}) until the next join: acquire and extend fail with NOSCRIPT. */
  get knowsScripts(): boolean {
    return this.#scripts.has(this.state.runId);
  }

  join(request: port.JoinRequest): port.JoinReply {
    const reply = join(this.state, request);
    if (reply.kind === 'joined') this.#scripts.add(this.state.runId);
    return reply;
  }

  /** @param start the run id that was joined on the connection: its scripts are asked for */
  acquire(request: port.AcquireRequest, start = this.state.runId): port.AcquireReply {
    return this.#scripts.has(start) ? acquire(this.state, request, start) : NOSCRIPT;
  }

  /** @param start as in {@link acquire} */
  extend(request: port.ExtendRequest, start = this.state.runId): port.ExtendReply {
    return this.#scripts.has(start) ? extend(this.state, request, start) : NOSCRIPT;
  }

  release(request: port.ReleaseRequest): port.ReleaseReply {
    return release(this.state, request, this.#publish);
  }

  wait(request: port.WaitRequest): port.WaitReply {
    return wait(this.state, request, this.#publish);
  }

  inspect(request: port.InspectRequest): port.InspectReply {
    return inspect(this.state, request);
  }

  revoke(request: port.RevokeRequest): port.RevokeReply {
    return revoke(this.state, request);
  }

  list(request: port.ListRequest): port.ListReply {
    return list(this.state, request);
  }

  examine(): port.NodeFacts {
    return {
      kind: 'facts',
      runId: this.state.runId,
      version: '7.2.0',
      role: 'master',
      clusterEnabled: false,
      maxmemoryPolicy: 'noeviction',
      appendOnly: true,
      connectedReplicas: 0,
      missingRights: [],
      ...this.#facts,
    };
  }

  /** Deletes a lock key, as an operator's DEL or a too early expiry does; its floor stays. True when it existed. */
  deleteLock(lockName: string): boolean {
    return this.state.locks.delete(lockName);
  }

  /** FLUSHALL: every key is gone, connections and scripts stay. */
  flush(): void {
    this.state.clear();
  }

  /** SCRIPT FLUSH. */
  forgetScripts(): void {
    this.#scripts.clear();
  }

  /** Shows the server a clock that differs from the given one by so many milliseconds; keys expire by it. */
  setClockOffset(offsetMs: number): void {
    this.#clockOffsetMs = offsetMs;
  }

  /** SIGSTOP: connections stay open, nothing is answered. */
  freeze(): void {
    this.#frozen = true;
  }

  /** SIGCONT: everything that piled up is executed, in order. */
  resume(): void {
    this.#frozen = false;
    this.drain();
  }

  /** @internal Executes and answers what has arrived on every connection, unless that or the server is frozen. */
  drain(): void {
    for (const client of this.#clients.keys()) client.drain();
  }

  /** SIGKILL: every connection breaks, and none can be made until {@link restart}. */
  kill(): void {
    if (!this.#running) return;
    this.#running = false;
    this.#frozen = false;
    this.#scripts.clear();
    for (const client of this.#clients.keys()) client.breakOff('the server died');
    this.#clients.clear();
  }

  /**
   * Starts the server again (after killing it if it runs): another run id, no scripts, no connections.
   *
   * @param options.keepData true: all keys survive, as with an append-only file that lost nothing; false: it starts empty
   * @param options.snapshot it starts with this older state instead
   */
  restart(options: { readonly keepData: boolean; readonly snapshot?: MemorySnapshot }): void {
    this.kill();
    if (options.snapshot) this.state.load(options.snapshot);
    else if (!options.keepData) this.state.clear();
    this.state.runId = newRunId();
    this.state.hasServedGuard = false;
    this.#running = true;
  }

  /** The present data, for a later {@link restart} from an older dump. */
  snapshot(): MemorySnapshot {
    return this.state.dump();
  }

  /** A connection was made. False when there is no server to answer. */
  connect(client: MemoryServerClient): boolean {
    if (this.#running) this.#clients.set(client, new Set());
    return this.#running;
  }

  disconnect(client: MemoryServerClient): void {
    this.#clients.delete(client);
  }

  subscribe(channel: string, client: MemoryServerClient): void {
    this.#clients.set(client, (this.#clients.get(client) ?? new Set()).add(channel));
  }

  /** Returns how many connections received it. */
  readonly #publish = (channel: string, message: string): number => {
    const subscribed = [...this.#clients].filter(([, channels]) => channels.has(channel));
    for (const [client] of subscribed) client.published(message);
    return subscribed.length;
  };
}
