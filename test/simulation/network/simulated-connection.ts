import type { NodeFailure } from '../../../lib/core/nodes/lock-node.ts';
import type { Chance } from '../world/chance.ts';
import type { NetworkPath } from './network-path.ts';
import type { SimulatedProcess } from '../world/simulated-process.ts';
import type { ServerPeer, SimulatedServer } from '../world/simulated-server.ts';
import type { WireCommand } from './wire-command.ts';
import type { World } from '../world/world.ts';
import { MOST_REQUESTS } from '../../../lib/redis/batch.ts';

/** Everything that one connection stands between. */
export interface ConnectionEnds {
  readonly world: World;
  readonly chance: Chance;
  readonly process: SimulatedProcess;
  readonly server: SimulatedServer;
  readonly path: NetworkPath;
  /** Price of writing or reading one command for the process. */
  readonly commandMs: number;
  /** A command was given, written or not. */
  given(): void;
  /** A release leaves with what followed it, though no answer is due. */
  joint(): void;
}

/** Receives what a connection does. */
export interface ConnectionOwner {
  /** A command is written. */
  left(command: WireCommand): void;
  /** A command was collected, and the tick ended without its write. */
  unwritten(command: WireCommand): void;
  /** Answer has arrived. */
  spoke(connection: SimulatedConnection): void;
  lost(connection: SimulatedConnection, message: string): void;
}

/** Commands that arrive late one after the other, each by as much as the fault says. */
export const MAX_REMEMBERED = 6;

/**
 * Connection: each direction keeps its order, whatever the delays. When it ends, what was on its way may be lost, or
 * arrive and be executed much later, and nobody receives the reply.
 */
export class SimulatedConnection implements ServerPeer {
  /** The client's side is open. */
  open = true;
  /** Connection is forgotten by something between: nothing passes any more, and neither end is notified. */
  forgotten = false;
  readonly #ends: ConnectionEnds;
  readonly #owner: ConnectionOwner;
  /** Commands that are not written yet. */
  #collected: WireCommand[] = [];
  #writes = 0;
  readonly #unsettled = new Set<WireCommand>();
  readonly #executed: WireCommand[] = [];
  /** Commands with the time at which they leave: a stalled process is ahead of the others. */
  readonly #inFlight: { readonly script: readonly WireCommand[]; readonly leavesMs: number }[] = [];
  #serverOpen = true;
  #requestArrivesMs = 0;
  #replyArrivesMs = 0;

  constructor(ends: ConnectionEnds, owner: ConnectionOwner) {
    this.#ends = ends;
    this.#owner = owner;
    ends.server.peers.add(this);
  }

  /** An answer is due. */
  get isAsked(): boolean {
    return this.#unsettled.size > 0;
  }

  /** Written with others by `flush`, and then true; or at once when no answer is due, and it is no release. */
  collect(command: WireCommand): boolean {
    const waits = this.isAsked || this.#collected.length > 0 || command.kind === 'release';
    this.#collected.push(command);
    if (!waits) this.flush();
    else if (this.#collected.length === 1) this.#expectFlush();
    return waits;
  }

  /** Expects that what is collected is written before the tick ends. */
  #expectFlush(): void {
    const { world } = this.#ends;
    const writes = this.#writes;
    world.after(0, () => {
      if (this.open && this.#writes === writes && this.#collected.length > 0)
        this.#owner.unwritten(this.#collected[0]!);
    });
  }

  /** Writes once: what the write carries travels together, and is answered together. */
  flush(): void {
    const packet = this.#collected;
    if (packet.length === 0) return;
    this.#collected = [];
    this.#writes += 1;
    if (packet.length > 1 && packet[0]!.kind === 'release' && !this.isAsked) this.#ends.joint();
    const { world, process, path, commandMs } = this.#ends;
    process.spend(packet.length * commandMs);
    const leavesMs = process.nowMs;
    for (const command of packet) this.#unsettled.add(command);
    for (let at = 0; at < packet.length; at += MOST_REQUESTS)
      this.#inFlight.push({ script: packet.slice(at, at + MOST_REQUESTS), leavesMs });
    this.#requestArrivesMs = Math.max(this.#requestArrivesMs, leavesMs + path.delayMs(leavesMs));
    world.at(this.#requestArrivesMs, () => path.passRequest(() => this.#arrive(packet)));
    for (const command of packet) this.#owner.left(command);
  }

  /** The way between broke, or the client left: both sides end, the client's at once. */
  breakOff(message: string, lateByMs: number): void {
    this.#loseRequests(lateByMs);
    this.#closeServerSide();
    this.#lose(message);
  }

  serverDied(): void {
    this.#serverOpen = false;
    this.#inFlight.length = 0;
    const { world, path } = this.#ends;
    world.after(path.delayMs(), () => path.passReply(() => this.#lose('the server died')));
  }

  /** A proxy sends again what it sent before: executed a second time, and nobody receives the reply. */
  duplicate(afterMs: number): void {
    const { world, server } = this.#ends;
    for (const command of this.#executed.slice()) {
      world.after(afterMs, () => {
        server.whenRunning(() => server.running && server.execute(command));
      });
    }
  }

  /** Our own side ends it, and receives nothing more. Open commands are settled. */
  close(message: string, lateByMs: number): void {
    this.open = false;
    this.#loseRequests(lateByMs);
    this.#closeServerSide();
    this.#failUnsettled(message);
  }

  /** The client's process died: what it sent is still on its way. */
  abandon(lateByMs: number): void {
    this.open = false;
    this.#unsettled.clear();
    this.#collected = [];
    this.#loseRequests(lateByMs);
    this.#closeServerSide();
  }

  #arrive(packet: readonly WireCommand[]): void {
    if (!this.#serverOpen || this.forgotten) return;
    const { server } = this.#ends;
    server.whenRunning(() => this.#execute(packet));
  }

  #execute(packet: readonly WireCommand[]): void {
    if (!this.#serverOpen || this.#inFlight[0]?.script[0] !== packet[0]) return;
    this.#inFlight.splice(0, Math.ceil(packet.length / MOST_REQUESTS));
    this.#executed.push(...packet);
    this.#executed.splice(0, this.#executed.length - MAX_REMEMBERED);
    const { world, server, path, process, chance, commandMs } = this.#ends;
    const replies = packet.map((command) => {
      const wasRead = chance.happens(path.garbledReplies);
      const reply = server.execute(command);
      return wasRead ? GARBLED : reply;
    });
    if (!this.open) return;
    this.#replyArrivesMs = Math.max(
      this.#replyArrivesMs,
      server.worksUntilMs(packet.length) + path.delayMs(),
    );
    const read = (): void => {
      if (this.open) this.#owner.spoke(this);
      process.spend(packet.length * commandMs);
      for (const [index, command] of packet.entries())
        if (this.#unsettled.delete(command)) command.settle(replies[index]);
    };
    world.at(this.#replyArrivesMs, () =>
      path.passReply(() => {
        if (!this.forgotten) process.deliver(read);
      }),
    );
  }

  /**
   * Some of what is on its way still arrives, from the first byte on, possibly late. Requests that leave together are one script,
   * which a server executes as a whole or not at all.
   */
  #loseRequests(lateByMs: number): void {
    const { world, server, chance } = this.#ends;
    const left = this.#inFlight.splice(0).filter(({ leavesMs }) => leavesMs <= world.nowMs);
    const arriving = left.slice(0, chance.integer(0, MAX_REMEMBERED));
    if (!this.#serverOpen || this.forgotten) return;
    let atMs = world.nowMs;
    for (const { script } of arriving) {
      atMs += chance.between(0, lateByMs);
      const peer: ServerPeer = { serverDied: () => (alive = false) };
      let alive = true;
      server.peers.add(peer);
      world.at(atMs, () => {
        if (!alive) return;
        server.whenRunning(() => alive && script.forEach((command) => server.execute(command)));
        server.peers.delete(peer);
      });
    }
  }

  #closeServerSide(): void {
    this.#serverOpen = false;
    this.#ends.server.peers.delete(this);
  }

  #lose(message: string): void {
    if (this.forgotten) return;
    this.#ends.process.deliver(() => {
      if (!this.open) return;
      this.open = false;
      // Either order is allowed: open commands have been settled when the end is reported, or are settled after it.
      const settleFirst = this.#ends.chance.happens(0.5);
      if (settleFirst) this.#failUnsettled(message);
      this.#owner.lost(this, message);
      if (!settleFirst) this.#failUnsettled(message);
    });
  }

  #failUnsettled(message: string): void {
    const failure: NodeFailure = {
      kind: 'failed',
      nothingWritten: false,
      reason: 'unreachable',
      message: `connection closed: ${message}`,
    };
    const written = [...this.#unsettled];
    this.#unsettled.clear();
    for (const command of written) command.settle(failure);
    for (const command of this.#collected.splice(0))
      command.settle({ ...failure, nothingWritten: true });
  }
}

const GARBLED: NodeFailure = {
  kind: 'failed',
  nothingWritten: false,
  reason: 'error',
  message: 'unexpected reply',
};
