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
} from '../../../lib/core/nodes/lock-node.ts';
import type { MemoryLockServer } from '../../../lib/testing/index.ts';
import { SimulatedConnection } from './simulated-connection.ts';
import type { ConnectionEnds } from './simulated-connection.ts';
import type { Trace } from '../world/trace.ts';
import type { WireCommand, WireKind } from './wire-command.ts';
import type { WireMonitor } from '../checks/wire-monitor.ts';

const NOT_CONNECTED: NodeFailure = {
  kind: 'failed',
  nothingWritten: true,
  reason: 'unreachable',
  message: 'not connected',
};

/** The `LockNode` that the core of one process has of one server: connects over the simulated network, again and again. */
export class SimulatedNode implements LockNode {
  readonly address: string;
  readonly ends: ConnectionEnds;
  readonly #monitor: WireMonitor;
  readonly #trace: Trace;
  readonly #watched = new Set<string>();
  readonly #subscriber = {
    breakOff: () => undefined,
    drain: () => undefined,
    published: (channel: string, holder: string) => this.#published(channel, holder),
  };
  #listener: LockNodeListener | undefined;
  #connection: SimulatedConnection | undefined;
  #up = false;
  #closed = false;
  /** How late bytes of an ended connection may arrive. */
  lateByMs = 0;
  /** Called before another ballot of the same attempt leaves. */
  onReballot: (() => void) | undefined;
  #latest: AcquireRequest | undefined;

  constructor(ends: ConnectionEnds, monitor: WireMonitor, trace: Trace) {
    this.ends = ends;
    this.address = `${ends.server.name}:6379`;
    this.#monitor = monitor;
    this.#trace = trace;
  }

  open(listener: LockNodeListener): void {
    this.#listener = listener;
    this.#connect();
  }

  join(request: JoinRequest, settle: (reply: JoinReply) => void): void {
    this.#send('join', '', request, (memory) => memory.join(request), settle);
  }

  acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): void {
    if (this.#latest?.holder === request.holder && this.#latest.ballot !== request.ballot)
      this.onReballot?.();
    this.#latest = request;
    const text = `${request.names.locks.join('+')} ${request.holder} p=${request.ballot} ttl=${request.ttlMs}`;
    this.#send('acquire', text, request, (memory) => memory.acquire(request), settle);
  }

  extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): void {
    const text = `${request.names.locks.join('+')} ${request.holder} p=${request.ballot} ttl=${request.ttlMs}`;
    this.#send('extend', text, request, (memory) => memory.extend(request), settle);
  }

  release(request: ReleaseRequest, settle: (reply: ReleaseReply) => void): void {
    const text = `${request.names.locks.join('+')} ${request.holder}${request.granted ? ' granted' : ''}${request.notify ? ' notify' : ''}`;
    this.#send('release', text, request, (memory) => memory.release(request), settle);
  }

  inspect(request: InspectRequest, settle: (reply: InspectReply) => void): void {
    this.#send('inspect', '', request, (memory) => memory.inspect(request), settle);
  }

  examine(settle: (reply: NodeFacts | NodeFailure) => void): void {
    this.#send('examine', '', undefined, (memory) => memory.examine(), settle);
  }

  watch(lockName: string): void {
    this.#watched.add(lockName);
    this.#subscribe(lockName);
  }

  unwatch(lockName: string): void {
    this.#watched.delete(lockName);
    this.ends.server.memory.unsubscribe(lockName, this.#subscriber);
  }

  reset(): void {
    if (this.#trace.on) this.#trace.add(this.ends.process.name, `${this.address} reset`);
    this.breakOff('reset');
  }

  close(): Promise<void> {
    const wasUp = this.#up;
    this.#closed = true;
    this.#up = false;
    this.ends.server.memory.disconnect(this.#subscriber);
    this.#connection?.close('closed', this.lateByMs);
    this.#connection = undefined;
    if (wasUp) this.#listener?.closed('closed');
    return Promise.resolve();
  }

  /** The connection breaks, if there is one. */
  breakOff(message: string): void {
    this.#connection?.breakOff(message, this.lateByMs);
  }

  /** Everything said lately on this connection is said to the server once more. */
  duplicate(afterMs: number): void {
    this.#connection?.duplicate(afterMs);
  }

  /** A hint that no release caused. */
  forgeHint(lockName: string, holder: string | null): void {
    this.ends.process.deliver(() => this.#listener?.hint(lockName, holder));
  }

  /** The process was killed. */
  die(): void {
    this.#closed = true;
    this.ends.server.memory.disconnect(this.#subscriber);
    this.#connection?.abandon(this.lateByMs);
  }

  #connect(): void {
    const { world, process, path } = this.ends;
    if (this.#closed || !process.alive) return;
    const arrive = (): void => {
      const { server } = this.ends;
      if (!server.running || path.refused) this.#connectLater();
      else server.whenRunning(() => this.#accept());
    };
    world.at(process.nowMs + path.delayMs(), () => path.passRequest(arrive));
  }

  #accept(): void {
    const { world, process, path, server } = this.ends;
    if (this.#closed || !process.alive) return;
    if (!server.running) {
      this.#connectLater();
      return;
    }
    const connection: SimulatedConnection = new SimulatedConnection(this.ends, (message) =>
      this.#lost(connection, message),
    );
    this.#connection = connection;
    const opened = (): void => {
      if (this.#connection !== connection || !connection.open || this.#closed) return;
      this.#up = true;
      if (this.#trace.on) this.#trace.add(process.name, `${this.address} connected`, process.nowMs);
      for (const lockName of this.#watched) this.#subscribe(lockName);
      this.#listener?.opened();
    };
    world.after(path.delayMs(), () => path.passReply(() => process.deliver(opened)));
  }

  #lost(connection: SimulatedConnection, message: string): void {
    if (this.#connection !== connection || this.#closed) return;
    const wasUp = this.#up;
    this.#connection = undefined;
    this.#up = false;
    this.ends.server.memory.disconnect(this.#subscriber);
    this.#connectLater();
    if (this.#trace.on) this.#trace.add(this.ends.process.name, `${this.address} lost: ${message}`);
    if (wasUp) this.#listener?.closed(message);
  }

  #connectLater(): void {
    const { world, chance, path } = this.ends;
    const shortestMs = Math.min(1, path.reconnectMs);
    world.after(chance.between(shortestMs, path.reconnectMs), () => this.#connect());
  }

  #send<Reply>(
    kind: WireKind,
    text: string,
    request: unknown,
    run: (memory: MemoryLockServer) => Reply,
    settle: (reply: Reply) => void,
  ): void {
    const { process, server } = this.ends;
    if (!process.alive) return;
    this.#monitor.sending(kind, request, server.index);
    const connection = this.#connection;
    if (!this.#up || !connection?.open || this.#closed) {
      this.#monitor.answered(kind, request, server.index, NOT_CONNECTED);
      settle(NOT_CONNECTED as Reply);
      return;
    }
    if (this.#trace.on)
      this.#trace.add(process.name, `→ ${server.name} ${kind} ${text}`, process.nowMs);
    const command: WireCommand = {
      kind,
      text: `${kind} ${text} of ${process.name}`,
      run,
      settle: (reply) => {
        const { kind: answer } = reply as { kind: string };
        if (this.#trace.on)
          this.#trace.add(
            process.name,
            `← ${server.name} ${kind} ${text} = ${answer}`,
            process.nowMs,
          );
        this.#monitor.answered(kind, request, server.index, reply as { kind: string });
        settle(reply as Reply);
      },
    };
    connection.send(command);
    this.#monitor.sent();
  }

  #subscribe(lockName: string): void {
    const { world, process, path, server } = this.ends;
    if (!this.#up) return;
    const active = (): void => {
      if (!this.#up || !this.#watched.has(lockName) || !server.running) return;
      server.memory.subscribe(lockName, this.#subscriber);
      world.after(path.delayMs(), () => path.passReply(() => this.#hint(lockName, null)));
    };
    world.at(process.nowMs + path.delayMs(), () => path.passRequest(active));
  }

  #published(lockName: string, holder: string): void {
    const { world, path, chance } = this.ends;
    if (chance.happens(path.lostHints)) return;
    world.after(path.delayMs(), () => path.passReply(() => this.#hint(lockName, holder)));
  }

  #hint(lockName: string, holder: string | null): void {
    this.ends.process.deliver(() => {
      if (this.#watched.has(lockName) && !this.#closed) this.#listener?.hint(lockName, holder);
    });
  }
}
