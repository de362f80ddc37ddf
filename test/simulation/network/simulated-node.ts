import type * as Port from '../../../lib/core/nodes/lock-node.ts';
import type { MemoryLockServer } from '../../../lib/testing/index.ts';
import type { WireMonitor } from '../checks/wire-monitor.ts';
import type { Trace } from '../world/trace.ts';
import { SilenceWatch } from './silence-watch.ts';
import { SimulatedConnection } from './simulated-connection.ts';
import type { ConnectionEnds, ConnectionOwner } from './simulated-connection.ts';
import { textOf } from './wire-command.ts';
import type { WireCommand, WireKind } from './wire-command.ts';

const FAILED = { kind: 'failed', nothingWritten: true } as const;
const NOT_CONNECTED = { ...FAILED, reason: 'unreachable', message: 'not connected' } as const;
/** A subscriber that was forgotten is found by its heartbeat. */
const HEARTBEAT_MS = 12_500;

/** The `LockNode` that the core of one process has of one server: connects over the simulated network, again and again. */
export class SimulatedNode implements Port.LockNode, ConnectionOwner {
  readonly address: string;
  readonly ends: ConnectionEnds;
  readonly #monitor: WireMonitor;
  readonly #trace: Trace;
  #channel: string | undefined;
  readonly #subscriber = {
    breakOff: () => undefined,
    drain: () => undefined,
    published: (message: string) => this.#published(message),
  };
  #listener: Port.LockNodeListener | undefined;
  #settings: Port.LinkSettings | undefined;
  #silence: SilenceWatch | undefined;
  #connection: SimulatedConnection | undefined;
  /** Opened beside one that is doubted; nothing but its join goes over it. */
  #second: SimulatedConnection | 'opening' | undefined;
  #up = false;
  #closed = false;
  /** Nothing that is published arrives any more, and neither end is notified. */
  #deaf = false;
  /** The run id that was joined on the present connection: its scripts are asked for. */
  #joined: string | undefined;
  /** When the present connection was joined, if nothing was said against that. */
  #joinedAtMs = Infinity;
  /** Longest delay with which bytes of an ended connection may arrive. */
  lateByMs = 0;
  /** Called before another ballot of the same attempt leaves. */
  onReballot: (() => void) | undefined;
  #latest: Port.AcquireRequest | undefined;

  constructor(ends: ConnectionEnds, monitor: WireMonitor, trace: Trace) {
    this.ends = ends;
    this.address = `${ends.server.name}:6379`;
    this.#monitor = monitor;
    this.#trace = trace;
  }

  /** Since when it has answered and voted without any fault between; Infinity when it doesn't. */
  get wellSinceMs(): number {
    const { path, server } = this.ends;
    if (!this.#up || this.#connection?.forgotten !== false) return Infinity;
    return Math.max(this.#joinedAtMs, path.wellSinceMs, server.wellSinceMs);
  }

  open(listener: Port.LockNodeListener, settings: Port.LinkSettings): void {
    this.#listener = listener;
    this.#settings = settings;
    this.#silence = new SilenceWatch(this.ends.process, settings.silenceLimitMs, {
      isAsked: () => this.#connection?.isAsked === true,
      ping: () => this.#ping(),
      doubt: () => this.#doubt(),
    });
    this.#connect();
  }

  join(request: Port.JoinRequest, settle: (reply: Port.JoinReply) => void): void {
    let runId = '';
    const run = (memory: MemoryLockServer): Port.JoinReply => {
      ({ runId } = memory);
      return memory.join(request);
    };
    this.#sendAtOnce<Port.JoinReply>('join', request, run, (reply) => {
      const isMoved = this.#joined !== undefined && this.#joined !== runId;
      if (reply.kind === 'joined') this.#joined = runId;
      settle(reply.kind === 'joined' && isMoved ? { ...reply, isMoved } : reply);
    });
  }

  acquire(request: Port.AcquireRequest, settle: (reply: Port.AcquireReply) => void): boolean {
    if (this.#latest?.holder === request.holder && this.#latest.ballot !== request.ballot)
      this.onReballot?.();
    this.#latest = request;
    const joined = this.#joined;
    const run = (memory: MemoryLockServer) => memory.acquire(request, joined);
    return this.#send<Port.AcquireReply>('acquire', request, run, settle);
  }

  extend(request: Port.ExtendRequest, settle: (reply: Port.ExtendReply) => void): boolean {
    const joined = this.#joined;
    const run = (memory: MemoryLockServer) => memory.extend(request, joined);
    return this.#send<Port.ExtendReply>('extend', request, run, settle);
  }

  release(request: Port.ReleaseRequest, settle: (reply: Port.ReleaseReply) => void): boolean {
    const run = (memory: MemoryLockServer) => memory.release(request);
    return this.#send<Port.ReleaseReply>('release', request, run, settle);
  }

  flush(): void {
    if (this.ends.process.alive) this.#connection?.flush();
  }

  inspect(request: Port.InspectRequest, settle: (reply: Port.InspectReply) => void): void {
    const run = (memory: MemoryLockServer) => memory.inspect(request);
    this.#sendAtOnce<Port.InspectReply>('inspect', request, run, settle);
  }

  revoke(request: Port.RevokeRequest, settle: (reply: Port.RevokeReply) => void): void {
    this.#sendAtOnce('revoke', request, (memory) => memory.revoke(request), settle);
  }

  list(request: Port.ListRequest, settle: (reply: Port.ListReply) => void): void {
    this.#sendAtOnce('list', request, (memory) => memory.list(request), settle);
  }

  examine(settle: (reply: Port.NodeFacts | Port.NodeFailure) => void): void {
    this.#sendAtOnce('examine', undefined, (memory) => memory.examine(), settle);
  }

  wait(request: Port.WaitRequest, settle: (reply: Port.WaitReply) => void): boolean {
    const run = (memory: MemoryLockServer) => memory.wait(request);
    return this.#send<Port.WaitReply>('wait', request, run, settle);
  }

  listen(channel: string): void {
    if (this.#channel !== undefined) return;
    this.#channel = channel;
    this.#subscribe();
  }

  close(): Promise<void> {
    this.flush();
    const wasUp = this.#up;
    this.#closed = true;
    this.#up = false;
    this.#silence?.close();
    this.ends.server.memory.disconnect(this.#subscriber);
    this.#dropSecond();
    this.#connection?.close('closed', this.lateByMs);
    this.#connection = undefined;
    if (wasUp) this.#listener?.closed('closed');
    return Promise.resolve();
  }

  /** The connection breaks, if there is one. */
  breakOff(message: string): void {
    this.#connection?.breakOff(message, this.lateByMs);
  }

  /** Makes something between forget the flows of commands, or of hints: what is sent vanishes, and neither end is notified. */
  forget(what: 'commands' | 'hints'): void {
    if (what === 'commands') {
      if (this.#connection) this.#connection.forgotten = true;
      return;
    }
    this.#deaf = true;
    const { world, process, path } = this.ends;
    const found = HEARTBEAT_MS + (this.#settings?.silenceLimitMs ?? 0) + 4 * path.latencyMs;
    world.after(found, () =>
      process.deliver(() => {
        if (this.#deaf && this.#up) this.subscribeAgain();
      }),
    );
  }

  /** Everything said lately on this connection is said to the server once more. */
  duplicate(afterMs: number): void {
    this.#connection?.duplicate(afterMs);
  }

  /** Says, as somebody who is no server, that it is this process's turn. */
  forgeTurn(lockName: string): void {
    this.ends.process.deliver(() => this.#listener?.turn(lockName, 0));
  }

  /** The process was killed. */
  die(): void {
    this.#closed = true;
    this.ends.server.memory.disconnect(this.#subscriber);
    this.#connection?.abandon(this.lateByMs);
    this.#dropSecond();
  }

  left(command: WireCommand): void {
    const { server } = this.ends;
    this.#monitor.sending(command.kind, command.request, server.index);
    if (this.#trace.on) this.#tell(`→ ${server.name} ${textOf(command)}`);
    this.#monitor.sent();
  }

  unwritten(command: WireCommand): void {
    this.#monitor.unwritten(textOf(command));
  }

  spoke(connection: SimulatedConnection): void {
    if (connection !== this.#connection) return;
    this.#silence?.spoke();
    this.#dropSecond();
  }

  lost(connection: SimulatedConnection, message: string): void {
    if (connection === this.#second) this.#second = undefined;
    if (this.#connection !== connection || this.#closed) return;
    this.#dropSecond();
    this.#ended(message);
    this.#connectLater();
  }

  /** The present connection is over, and the listener is notified. */
  #ended(message: string): void {
    const wasUp = this.#up;
    this.#connection = undefined;
    this.#up = false;
    this.#joinedAtMs = Infinity;
    this.ends.server.memory.disconnect(this.#subscriber);
    if (this.#trace.on) this.#tell(`${this.address} lost: ${message}`);
    if (wasUp) this.#listener?.closed(message);
  }

  #connect(isSecond = false): void {
    const { world, process, path } = this.ends;
    if (this.#closed || !process.alive) return;
    const arrive = (): void => {
      const { server } = this.ends;
      if (!server.running || path.refused) this.#failedToConnect(isSecond);
      else server.whenRunning(() => this.#accept(isSecond));
    };
    world.at(process.nowMs + path.delayMs(), () => path.passRequest(arrive));
  }

  #accept(isSecond: boolean): void {
    const { world, process, path, server } = this.ends;
    if (this.#closed || !process.alive) return;
    if (!server.running) return this.#failedToConnect(isSecond);
    if (isSecond && this.#second !== 'opening') return;
    const connection = new SimulatedConnection(this.ends, this);
    if (isSecond) this.#second = connection;
    else this.#connection = connection;
    const opened = (): void => {
      if (!connection.open || this.#closed) return;
      if (connection === this.#connection) this.#opened();
      else if (connection === this.#second) this.#prove(connection);
    };
    world.after(path.delayMs(), () => path.passReply(() => process.deliver(opened)));
  }

  #opened(): void {
    this.#up = true;
    this.#joined = undefined;
    this.#silence?.spoke();
    if (this.#trace.on) this.#tell(`${this.address} connected`);
    this.subscribeAgain();
    this.#listener?.opened();
  }

  #failedToConnect(isSecond: boolean): void {
    if (isSecond) this.#second = undefined;
    else this.#connectLater();
  }

  #connectLater(): void {
    const { world, chance, path } = this.ends;
    const shortestMs = Math.min(1, path.reconnectMs);
    world.after(chance.between(shortestMs, path.reconnectMs), () => this.#connect());
  }

  /** Silent for too long: is it the connection, or the server? */
  #doubt(): void {
    if (this.#second !== undefined || !this.#up) return;
    if (this.#trace.on) this.#tell(`${this.address} doubted`);
    this.#second = 'opening';
    this.#connect(true);
  }

  /** Connection takes the place of the first only if it is joined while that is still silent. */
  #prove(connection: SimulatedConnection): void {
    const request = this.#settings!.join!;
    connection.collect({
      kind: 'join',
      request,
      from: this.ends.process.name,
      run: (memory) => memory.join(request),
      settle: () => {
        if (this.#second !== connection || !connection.open) return;
        const silent = this.#connection;
        this.#second = undefined;
        this.#ended('silent');
        silent?.close('silent', this.lateByMs);
        this.#connection = connection;
        this.#opened();
      },
    });
  }

  #dropSecond(): void {
    if (this.#second instanceof SimulatedConnection) this.#second.close('not needed', 0);
    this.#second = undefined;
  }

  #ping(): void {
    if (!this.#up) return;
    const run = (): object => ({ kind: 'pong' });
    this.#sendAtOnce('ping', undefined, run, () => undefined);
  }

  #sendAtOnce<Reply>(
    kind: WireKind,
    request: unknown,
    run: (memory: MemoryLockServer) => Reply,
    settle: (reply: Reply) => void,
  ): void {
    this.#send(kind, request, run, settle);
    this.flush();
  }

  #send<Reply>(
    kind: WireKind,
    request: unknown,
    run: (memory: MemoryLockServer) => Reply,
    settle: (reply: Reply) => void,
  ): boolean {
    const { process, server } = this.ends;
    if (!process.alive) return false;
    const command: WireCommand = {
      kind,
      request,
      from: process.name,
      run,
      settle: (reply) => {
        this.#answered(command, reply as { kind: string });
        settle(reply as Reply);
      },
    };
    if (this.#up && this.#connection?.open && !this.#closed) {
      const waits = this.#connection.collect(command);
      this.ends.given();
      return waits;
    }
    this.#monitor.sending(kind, request, server.index);
    this.#monitor.answered(kind, request, server.index, NOT_CONNECTED);
    settle(NOT_CONNECTED as Reply);
    return false;
  }

  #answered(command: WireCommand, reply: { kind: string }): void {
    const { kind, request } = command;
    const { server, process } = this.ends;
    if (this.#trace.on) this.#tell(`← ${server.name} ${textOf(command)} = ${reply.kind}`);
    this.#monitor.answered(kind, request, server.index, reply);
    if (reply.kind === 'joined') this.#joinedAtMs = process.nowMs;
    else if (kind === 'join' || reply.kind === 'unjoined' || 'mustJoin' in reply)
      this.#joinedAtMs = Infinity;
  }

  /** The connection for turns was made again, to the server that is behind the address now. */
  subscribeAgain(): void {
    if (!this.#up) return;
    this.#deaf = false;
    this.ends.server.memory.disconnect(this.#subscriber);
    this.#subscribe();
  }

  #subscribe(): void {
    const { world, process, path, server } = this.ends;
    const channel = this.#channel;
    if (!this.#up || channel === undefined) return;
    this.flush();
    const active = (): void => {
      if (!this.#up || !server.running || this.#deaf) return;
      server.memory.subscribe(channel, this.#subscriber);
      this.#hear(() => this.#listener?.listening());
    };
    world.at(process.nowMs + path.delayMs(), () => path.passRequest(active));
  }

  #published(message: string): void {
    if (this.ends.chance.happens(this.ends.path.lostHints)) return;
    const [keptMs = '', ...name] = message.split(' ');
    this.#hear(() => this.#listener?.turn(name.join(' '), Number(keptMs)));
  }

  #hear(hear: () => void): void {
    const { world, path, process } = this.ends;
    const deliver = () => process.deliver(() => this.#closed || this.#deaf || hear());
    world.after(path.delayMs(), () => path.passReply(deliver));
  }

  #tell(what: string): void {
    const { process } = this.ends;
    this.#trace.add(process.name, what, process.nowMs);
  }
}
