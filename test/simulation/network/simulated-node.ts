import type * as Port from '../../../lib/core/nodes/lock-node.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import type { WireListener, WireSource } from '../../../lib/redis/wire.ts';
import type { BidWatch } from '../checks/replace-check.ts';
import type { WireMonitor } from '../checks/wire-monitor.ts';
import type { Trace } from '../world/trace.ts';
import { SimulatedWire, type WireEnds } from './simulated-wire.ts';

/** The kinds of what a service says to a node. */
export type RequestKind = 'join' | 'acquire' | 'extend' | 'release' | 'wait';

/** The shipped node of one server over simulated connections, with what its service says to it written down. */
export class SimulatedNode implements Port.LockNode, WireSource {
  readonly address: string;
  readonly ignoredKeyPrefix = '';
  /** Nobody looks for several servers behind an address. */
  readonly host = undefined;
  readonly ends: WireEnds;
  /** Longest delay with which bytes of an ended connection may arrive. */
  lateByMs = 0;
  /** Called before another ballot of the same attempt leaves. */
  onReballot: (() => void) | undefined;
  readonly #node: RedisLockNode;
  readonly #monitor: WireMonitor;
  readonly #trace: Trace;
  readonly #bids: BidWatch | undefined;
  /** Connections that have not ended. */
  readonly #wires = new Set<SimulatedWire>();
  #latest: Port.AcquireRequest | undefined;
  /** When it was joined, if nothing was said against that since. */
  #duplicatedAtMs = Number.NEGATIVE_INFINITY;
  #joinedAtMs = Infinity;
  #listener: Port.LockNodeListener | undefined;
  /** What was given and has to be written before the tick ends. */
  #unwritten: string | undefined;

  constructor(ends: WireEnds, monitor: WireMonitor, trace: Trace, bids?: BidWatch) {
    this.#bids = bids;
    this.ends = ends;
    this.address = `${ends.server.name}:6379`;
    this.#monitor = monitor;
    this.#trace = trace;
    this.#node = new RedisLockNode(this, 'lock:', ends.process.environment);
  }

  /** Since when it has answered and voted without any fault between; Infinity when it doesn't. */
  get wellSinceMs(): number {
    const { path, server } = this.ends;
    if (this.#commands().some(({ isForgotten }) => isForgotten)) return Infinity;
    return Math.max(this.#joinedAtMs, path.wellSinceMs, server.wellSinceMs);
  }

  connect(listener: WireListener): SimulatedWire {
    const wire = new SimulatedWire(this.ends, listener);
    this.#wires.add(wire);
    void wire.closed.then(() => this.#wires.delete(wire));
    return wire;
  }

  conceal(message: string): string {
    return message;
  }

  open(listener: Port.LockNodeListener, settings: Port.LinkSettings): void {
    this.#listener = listener;
    const closed = (message: string) => {
      this.#joinedAtMs = Infinity;
      if (this.#trace.on) this.#tell(`${this.address} lost: ${message}`);
      listener.closed(message);
    };
    const heard: Port.LockNodeListener = {
      opened: () => listener.opened(),
      closed,
      unreachable: (message) => listener.unreachable?.(message),
      stalled: () => listener.stalled?.(),
      spoke: () => listener.spoke?.(),
      turn: (lockName, keptMs) => listener.turn(lockName, keptMs),
      listening: () => listener.listening(),
    };
    this.#node.open(heard, settings);
  }

  join(request: Port.JoinRequest, settle: (reply: Port.JoinReply) => void): void {
    this.#node.join(request, this.#said('join', request, settle));
  }

  acquire(request: Port.AcquireRequest, settle: (reply: Port.AcquireReply) => void): boolean {
    if (this.#latest?.holder === request.holder && this.#latest.ballot !== request.ballot)
      this.onReballot?.();
    this.#latest = request;
    const said = this.#said('acquire', request, settle);
    return this.#collected('acquire', this.#node.acquire(request, said));
  }

  extend(request: Port.ExtendRequest, settle: (reply: Port.ExtendReply) => void): boolean {
    const said = this.#said('extend', request, settle);
    return this.#collected('extend', this.#node.extend(request, said));
  }

  release(request: Port.ReleaseRequest, settle: (reply: Port.ReleaseReply) => void): boolean {
    const said = this.#said('release', request, settle);
    return this.#collected('release', this.#node.release(request, said));
  }

  wait(request: Port.WaitRequest, settle: (reply: Port.WaitReply) => void): boolean {
    const said = this.#said('wait', request, settle);
    return this.#collected('wait', this.#node.wait(request, said));
  }

  flush(): void {
    this.#unwritten = undefined;
    if (this.ends.process.alive) this.#node.flush();
  }

  inspect(request: Port.InspectRequest, settle: (reply: Port.InspectReply) => void): void {
    this.#node.inspect(request, settle);
  }

  revoke(request: Port.RevokeRequest, settle: (reply: Port.RevokeReply) => void): void {
    this.#bids?.sending(request);
    const { server, process } = this.ends;
    const what = `bid ${request.holder} above ${request.floor}`;
    if (this.#trace.on) this.#tell(`→ ${server.name} ${what}`);
    this.#node.revoke(request, (reply) => {
      if (!process.alive) return;
      if (this.#trace.on) this.#tell(`← ${server.name} ${what} = ${JSON.stringify(reply)}`);
      this.#bids?.answered(request, reply);
      settle(reply);
    });
  }

  list(request: Port.ListRequest, settle: (reply: Port.ListReply) => void): void {
    this.#node.list(request, settle);
  }

  examine(settle: (reply: Port.NodeFacts | Port.NodeFailure) => void): void {
    this.#node.examine(settle);
  }

  listen(channel: string): void {
    this.#node.listen(channel);
  }

  renew(): void {
    this.#node.renew();
  }

  close(): Promise<void> {
    return this.#node.close();
  }

  /** The connection for commands breaks, if there is one. */
  breakOff(message: string): void {
    for (const wire of this.#commands()) wire.breakOff(message, this.lateByMs);
  }

  /** The connection for turns breaks: it led to a server that is another one by now. */
  breakTurns(): void {
    for (const wire of this.#wires) if (wire.channel !== undefined) wire.breakOff('moved', 0);
  }

  /** Makes something between forget the flows of commands, or of hints: what is sent vanishes, and neither end is notified. */
  forget(what: 'commands' | 'hints'): void {
    for (const wire of this.#wires)
      if ((wire.channel === undefined) === (what === 'commands')) wire.isForgotten = true;
  }

  /** Everything said lately is said to the server once more. */
  duplicate(afterMs: number): void {
    this.#duplicatedAtMs = this.ends.process.nowMs;
    for (const wire of this.#commands()) wire.duplicate(afterMs);
  }

  /** Says, as somebody who is no server, that it is this process's turn. */
  forgeTurn(lockName: string): void {
    this.ends.process.deliver(() => this.#listener?.turn(lockName, 0));
  }

  /** The process was killed. */
  die(): void {
    for (const wire of this.#wires) wire.abandon(this.lateByMs);
  }

  #commands(): SimulatedWire[] {
    return [...this.#wires].filter(({ channel }) => channel === undefined);
  }

  #said<Reply extends { readonly kind: string }>(
    kind: RequestKind,
    request: unknown,
    settle: (reply: Reply) => void,
  ): (reply: Reply) => void {
    const { server, process } = this.ends;
    const saidAtMs = process.nowMs;
    this.#monitor.sending(kind, request, server.index);
    if (this.#trace.on) this.#tell(`→ ${server.name} ${textOf(kind, request)}`);
    return (reply) => {
      if (!process.alive) return;
      if (this.#trace.on) this.#tell(`← ${server.name} ${textOf(kind, request)} = ${reply.kind}`);
      this.#monitor.answered(kind, request, server.index, reply);
      const isUnwritten = 'nothingWritten' in reply && reply.nothingWritten;
      // What was said twice may be refused once, and written the other time.
      if (kind === 'acquire' && isUnwritten && this.#duplicatedAtMs < saidAtMs)
        this.#checkUnwritten(request as Port.AcquireRequest);
      if (reply.kind === 'joined') this.#joinedAtMs = process.nowMs;
      else if (kind === 'join' || reply.kind === 'unjoined' || 'mustJoin' in reply)
        this.#joinedAtMs = Infinity;
      settle(reply);
    };
  }

  #checkUnwritten({ names, holder, ballot }: Port.AcquireRequest): void {
    const { server } = this.ends;
    const [lock, floor] = names.pairs as [string, string];
    const isWritten = server.holderOf(lock) === holder && server.floorOf(floor) === ballot;
    if (isWritten) this.#monitor.writtenAfterAll(holder, server.name);
  }

  /** Expects that what is collected is written before the tick ends. */
  #collected(kind: RequestKind, isCollected: boolean): boolean {
    this.ends.given();
    if (isCollected && this.#unwritten === undefined) {
      this.#unwritten = kind;
      this.ends.world.after(0, () => {
        if (this.#unwritten !== undefined && this.ends.process.alive)
          this.#monitor.unwritten(this.#unwritten);
        this.#unwritten = undefined;
      });
    }
    if (!isCollected) this.#unwritten = undefined;
    return isCollected;
  }

  #tell(what: string): void {
    const { process } = this.ends;
    this.#trace.add(process.name, what, process.nowMs);
  }
}

/** Text for the trace. */
function textOf(kind: RequestKind, request: unknown): string {
  if (kind === 'release') {
    const { names, holder, granted, pass } = request as Port.ReleaseRequest;
    return `release ${names.locks.join('+')} ${holder}${granted ? ' granted' : ''}${pass ? ' pass' : ''}`;
  }
  if (kind !== 'acquire' && kind !== 'extend') return kind;
  const { names, holder, ballot, ttlMs } = request as Port.AcquireRequest | Port.ExtendRequest;
  return `${kind} ${names.locks.join('+')} ${holder} p=${ballot} ttl=${ttlMs}`;
}
