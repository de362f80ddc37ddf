import type * as port from '../../core/nodes/lock-node.ts';
import type { TimerHandle, Timers } from '../../core/environment.ts';
import { RedlockConfigError } from '../../core/errors.ts';
import { IDENTITY_LIFE_MS } from '../../core/process-identity.ts';
import { inModuleContext, systemEnvironment } from '../../core/system-environment.ts';
import {
  failure,
  NOT_CONNECTED,
  type MemoryCommandName,
  type MemoryFault,
} from './memory-fault.ts';
import { MemoryConnection } from './memory-connection.ts';
import { MemoryLockServer, type MemoryLockServerOptions } from './memory-lock-server.ts';
import type { MemorySnapshot } from './memory-redis.ts';

/** The options of {@link MemoryLockNode}. */
export interface MemoryLockNodeOptions {
  /** The name of this node in messages. @default that of its server: `memory:1`, counting up */
  readonly address?: string;
  /** The round trip, ms; 0 = a few microtasks, so that also tests with fake timers get answers. @default 0 */
  readonly latencyMs?: number;
  /** The pause before a lost connection is made again, ms. @default 5 */
  readonly reconnectDelayMs?: number;
  /** It carries latency and reconnects. @default the system's, which never keep a process alive */
  readonly timers?: Timers;
}

/** The lock service that has opened a node. */
interface Service {
  readonly listener: port.LockNodeListener;
  readonly identity: port.LinkSettings['identity'];
}

interface PlannedFault {
  readonly fault: MemoryFault;
  /** Any command when it is missing. */
  readonly command?: MemoryCommandName;
  left: number;
}

/**
 * The connection of one process to a {@link MemoryLockServer}: a `LockNode` without a network, with faults to order.
 *
 * Commands and replies keep their order, and every answer comes asynchronously. A fault stays until its opposite is
 * called; all of them are safe to call at any time.
 *
 * @example
 * ```ts
 * const [node] = createMemoryNodes(1);
 * node?.failNext('lose-reply', { command: 'acquire' });
 * ```
 */
export class MemoryLockNode implements port.LockNode {
  readonly address: string;
  /** The server behind this node. Other nodes may share it. */
  readonly server: MemoryLockServer;
  /** The round trip of what is sent from now on, ms. */
  latencyMs: number;
  readonly #timers: Timers;
  readonly #reconnectDelayMs: number;
  /** The faults that wait for their command, oldest first. */
  #faults: PlannedFault[] = [];
  #channel: string | undefined;
  #service: Service | undefined;
  #connection: MemoryConnection | undefined;
  #frozen = false;
  #isTaken = false;
  #reconnectTimer: TimerHandle;

  constructor(
    server: MemoryLockServer = new MemoryLockServer(),
    options: MemoryLockNodeOptions = {},
  ) {
    this.server = server;
    this.address = options.address ?? server.address;
    this.latencyMs = options.latencyMs ?? 0;
    this.#timers = options.timers ?? systemEnvironment.timers;
    this.#reconnectDelayMs = options.reconnectDelayMs ?? 5;
  }

  /** The node for one more lock service: this one or, while it is taken, another on the same server. Faults stay those of this node. */
  forService(): MemoryLockNode {
    if (!this.#isTaken) {
      this.#isTaken = true;
      return this;
    }
    const { address, latencyMs } = this;
    const [timers, reconnectDelayMs] = [this.#timers, this.#reconnectDelayMs];
    return new MemoryLockNode(this.server, { address, latencyMs, timers, reconnectDelayMs });
  }

  /** @throws RedlockConfigError when it is open already: it may be opened again after `close` */
  open(listener: port.LockNodeListener, settings: Partial<port.LinkSettings> = {}): void {
    if (this.#service !== undefined) {
      const fix = 'give createMemoryNodes(nodes.map((node) => node.server))';
      const shown = `${this.address}, which is open already`;
      throw new RedlockConfigError('nodes', undefined, fix, shown);
    }
    this.#isTaken = true;
    this.#service = { listener, identity: settings.identity };
    this.#connect();
  }

  join(request: port.JoinRequest, settle: (reply: port.JoinReply) => void): void {
    const join = () => {
      const reply = this.server.join(request);
      if (reply.kind === 'joined') this.#identify(null);
      return reply;
    };
    this.#send('join', join, settle);
  }

  acquire(request: port.AcquireRequest, settle: (reply: port.AcquireReply) => void): boolean {
    return this.#send('acquire', () => this.server.acquire(request), settle);
  }

  extend(request: port.ExtendRequest, settle: (reply: port.ExtendReply) => void): boolean {
    return this.#send('extend', () => this.server.extend(request), settle);
  }

  release(request: port.ReleaseRequest, settle: (reply: port.ReleaseReply) => void): boolean {
    return this.#send('release', () => this.server.release(request), settle);
  }

  /** Nothing is ever collected: there is no network in which a message would cost anything. */
  flush(): void {}

  inspect(request: port.InspectRequest, settle: (reply: port.InspectReply) => void): void {
    this.#send('inspect', () => this.server.inspect(request), settle);
  }

  revoke(request: port.RevokeRequest, settle: (reply: port.RevokeReply) => void): void {
    this.#send('revoke', () => this.server.revoke(request), settle);
  }

  list(request: port.ListRequest, settle: (reply: port.ListReply) => void): void {
    this.#send('list', () => this.server.list(request), settle);
  }

  examine(settle: (reply: port.NodeFacts | port.NodeFailure) => void): void {
    this.#send('examine', () => this.server.examine(), settle);
  }

  wait(request: port.WaitRequest, settle: (reply: port.WaitReply) => void): boolean {
    return this.#send('wait', () => this.server.wait(request), settle);
  }

  listen(channel: string): void {
    if (this.#channel !== undefined) return;
    this.#channel = channel;
    this.#subscribe();
  }

  /** Commands that were sent are executed, however late. */
  async close(): Promise<void> {
    const connection = this.#connection;
    const service = this.#service;
    this.#identify(IDENTITY_LIFE_MS);
    this.#service = this.#connection = this.#channel = undefined;
    this.#isTaken = false;
    this.#timers.clear(this.#reconnectTimer);
    connection?.close('closed');
    if (connection?.isUp) service?.listener.closed('closed');
  }

  /** A stalled network path: nothing passes, the connection stays. For a stopped process see `server.freeze()`. */
  freeze(): void {
    this.#frozen = true;
  }

  /** Delivers what piled up while frozen, in order. */
  resume(): void {
    this.#frozen = false;
    // Connections that were closed meanwhile deliver what was sent, too.
    this.server.drain();
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
    this.#faults.push({ fault, command: options.command, left: options.times ?? 1 });
  }

  /** Forgets the planned faults that nothing has met yet. */
  clearFaults(): void {
    this.#faults = [];
  }

  /** Writes it once, for as long as it is open: a repeating timer would keep a test's fake timers busy forever. */
  #identify(lifeMs: number | null): void {
    const identity = this.#service?.identity;
    if (identity === undefined) return;
    const { name, text } = identity;
    this.server.call('SET', name, text, ...(lifeMs === null ? [] : ['PX', lifeMs]));
  }

  #connect(): void {
    const connection: MemoryConnection = new MemoryConnection(this.server, {
      travel: (arrive) => this.#travel(arrive),
      isFrozen: () => this.#frozen,
      lost: (message) => this.#lost(message),
      published: (message) => this.#published(message),
    });
    if (!this.server.connect(connection)) return this.#reconnectLater();
    this.#connection = connection;
    // A stopped server accepts connections but answers nothing: its first answer makes this one count.
    const answered = (reply: unknown) => {
      if (reply !== 'PONG') return;
      connection.isUp = true;
      this.#subscribe();
      this.#service?.listener.opened();
    };
    connection.send(() => 'PONG', answered);
  }

  #lost(message: string): void {
    const wasUp = this.#connection?.isUp;
    this.#connection = undefined;
    this.#reconnectLater();
    if (wasUp) this.#service?.listener.closed(message);
  }

  #reconnectLater(): void {
    this.#timers.clear(this.#reconnectTimer);
    if (this.#service === undefined) return;
    this.#reconnectTimer = this.#timers.set(() => this.#connect(), this.#reconnectDelayMs, true);
  }

  #travel(arrive: () => void): void {
    const deliver = () => inModuleContext(arrive);
    // Users' fake timers would replace queueMicrotask.
    if (this.latencyMs <= 0) void Promise.resolve().then(deliver);
    else this.#timers.set(deliver, this.latencyMs / 2, true);
  }

  /** Returns false: it is on its way. */
  #send<Reply>(name: MemoryCommandName, run: () => Reply, settle: (reply: Reply) => void): boolean {
    if (this.#connection?.isUp) {
      const fault = this.#takeFault(name);
      const execute = () => {
        if (typeof fault === 'object') return failure('error', fault.error);
        const reply = fault === 'lose-request' ? undefined : run();
        return fault === undefined ? reply : undefined;
      };
      this.#connection.send(execute, (reply) => settle(reply as Reply));
    } else settle(NOT_CONNECTED as Reply);
    return false;
  }

  #takeFault(name: MemoryCommandName): MemoryFault | undefined {
    const planned = this.#faults.find(({ command = name }) => command === name);
    if (planned !== undefined) planned.left -= 1;
    this.#faults = this.#faults.filter(({ left }) => left > 0);
    return planned?.fault;
  }

  #subscribe(): void {
    const [connection, channel] = [this.#connection, this.#channel];
    if (channel === undefined || !connection?.isUp) return;
    const subscribe = () => {
      this.server.subscribe(channel, connection);
      return 'subscribed';
    };
    connection.send(subscribe, (reply) => {
      if (reply === 'subscribed') this.#service?.listener.listening();
    });
  }

  #published(message: string): void {
    const [, keptMs, lockName = ''] = /^(-1|\d+) (.+)$/s.exec(message) ?? [];
    this.#service?.listener.turn(lockName, Number(keptMs));
  }
}

/**
 * The lock nodes for tests without Redis: locks really exclude, expire and get increasing tokens, by the same rules as on Redis
 * (one contract suite runs against both). They give locks at once: the restart guard applies to servers that `restart` or lose their
 * data (`flush`), and to new ones with `fresh: true`. With fake timers (`jest.useFakeTimers()` after `await
 * module.init()`) a free lock is acquired and released as ever; waits, expiry and renewals happen when the test advances them.
 *
 * A second application that is given the same nodes competes for the same locks: it gets nodes of its own on the same servers, and
 * faults of a node (`freeze`, `disconnect`, `failNext`) meet the first one only.
 *
 * @example
 * ```ts
 * const nodes = createMemoryNodes(3);
 * await Test.createTestingModule({ imports: [RedlockModule.forRoot({ nodes })] }).compile();
 * ```
 * @param countOrServers how many new servers to make, or the servers to connect to
 * @throws RedlockConfigError when it is neither, or `fresh` is given with servers that exist
 */
export function createMemoryNodes(
  countOrServers: number | readonly MemoryLockServer[],
  options: Omit<MemoryLockNodeOptions, 'address'> & Pick<MemoryLockServerOptions, 'fresh'> = {},
): MemoryLockNode[] {
  const { fresh } = options;
  const isCount = Number.isInteger(countOrServers) && Number(countOrServers) > 0;
  if (!isCount && !Array.isArray(countOrServers)) {
    const fix = 'give a number of servers from 1 on, or servers';
    throw new RedlockConfigError('countOrServers', countOrServers, fix);
  }
  if (!isCount && fresh !== undefined) {
    const fix = 'these servers exist already; give it to new MemoryLockServer({ fresh })';
    throw new RedlockConfigError('fresh', fresh, fix);
  }
  const servers: readonly MemoryLockServer[] = Array.isArray(countOrServers)
    ? countOrServers
    : Array.from({ length: Number(countOrServers) }, () => new MemoryLockServer({ fresh }));
  return servers.map((server) => new MemoryLockNode(server, options));
}
