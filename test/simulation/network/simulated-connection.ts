import type { NodeFailure } from '../../../lib/core/nodes/lock-node.ts';
import type { Chance } from '../world/chance.ts';
import type { NetworkPath } from './network-path.ts';
import type { SimulatedProcess } from '../world/simulated-process.ts';
import type { ServerPeer, SimulatedServer } from '../world/simulated-server.ts';
import type { WireCommand } from './wire-command.ts';
import type { World } from '../world/world.ts';

/** Everything that one connection stands between. */
export interface ConnectionEnds {
  readonly world: World;
  readonly chance: Chance;
  readonly process: SimulatedProcess;
  readonly server: SimulatedServer;
  readonly path: NetworkPath;
}

const MAX_REMEMBERED = 6;

/**
 * One connection: each direction keeps its order, whatever the delays. When it ends, what was on its way may be lost, or
 * arrive and be executed much later, and nobody hears the reply.
 */
export class SimulatedConnection implements ServerPeer {
  /** The client's side is open. */
  open = true;
  readonly #ends: ConnectionEnds;
  readonly #onLost: (message: string) => void;
  readonly #unsettled = new Set<WireCommand>();
  readonly #executed: WireCommand[] = [];
  /** With the time at which it leaves: a stalled process is ahead of the others. */
  readonly #inFlight: { readonly command: WireCommand; readonly leavesMs: number }[] = [];
  #serverOpen = true;
  #requestArrivesMs = 0;
  #replyArrivesMs = 0;

  constructor(ends: ConnectionEnds, onLost: (message: string) => void) {
    this.#ends = ends;
    this.#onLost = onLost;
    ends.server.peers.add(this);
  }

  send(command: WireCommand): void {
    const { world, process, path } = this.#ends;
    this.#unsettled.add(command);
    this.#inFlight.push({ command, leavesMs: process.nowMs });
    this.#requestArrivesMs = Math.max(this.#requestArrivesMs, process.nowMs + path.delayMs());
    world.at(this.#requestArrivesMs, () => path.passRequest(() => this.#arrive(command)));
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

  /** A proxy sends again what it sent before: executed a second time, and nobody hears the reply. */
  duplicate(afterMs: number): void {
    const { world, server } = this.#ends;
    for (const command of this.#executed.slice()) {
      world.after(afterMs, () => {
        server.whenRunning(() => server.running && server.execute(command));
      });
    }
  }

  /** Our own side ends it, and hears nothing more. Open commands are settled. */
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
    this.#loseRequests(lateByMs);
    this.#closeServerSide();
  }

  #arrive(command: WireCommand): void {
    if (!this.#serverOpen) return;
    const { server } = this.#ends;
    server.whenRunning(() => this.#execute(command));
  }

  #execute(command: WireCommand): void {
    if (!this.#serverOpen || this.#inFlight[0]?.command !== command) return;
    this.#inFlight.shift();
    this.#executed.push(command);
    if (this.#executed.length > MAX_REMEMBERED) this.#executed.shift();
    const { world, server, path, process, chance } = this.#ends;
    const wasRead = chance.happens(path.garbledReplies);
    const reply = server.execute(command);
    if (!this.open) return;
    const told = wasRead ? GARBLED : reply;
    this.#replyArrivesMs = Math.max(
      this.#replyArrivesMs,
      world.nowMs + server.serviceMs + path.delayMs(),
    );
    world.at(this.#replyArrivesMs, () =>
      path.passReply(() => process.deliver(() => this.#settle(command, told))),
    );
  }

  #settle(command: WireCommand, reply: unknown): void {
    if (this.#unsettled.delete(command)) command.settle(reply);
  }

  /** Some of what is on its way still arrives, from the first byte on, possibly late. */
  #loseRequests(lateByMs: number): void {
    const { world, server, chance } = this.#ends;
    const left = this.#inFlight.splice(0).filter(({ leavesMs }) => leavesMs <= world.nowMs);
    const arriving = left.slice(0, chance.integer(0, MAX_REMEMBERED));
    if (!this.#serverOpen) return;
    let atMs = world.nowMs;
    for (const { command } of arriving) {
      atMs += chance.between(0, lateByMs);
      const peer: ServerPeer = { serverDied: () => (alive = false) };
      let alive = true;
      server.peers.add(peer);
      world.at(atMs, () => {
        if (!alive) return;
        server.whenRunning(() => alive && server.execute(command));
        server.peers.delete(peer);
      });
    }
  }

  #closeServerSide(): void {
    this.#serverOpen = false;
    this.#ends.server.peers.delete(this);
  }

  #lose(message: string): void {
    this.#ends.process.deliver(() => {
      if (!this.open) return;
      this.open = false;
      // Either order is allowed: open commands have been settled when the end is told, or are settled after it.
      const settleFirst = this.#ends.chance.happens(0.5);
      if (settleFirst) this.#failUnsettled(message);
      this.#onLost(message);
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
    const unsettled = [...this.#unsettled];
    this.#unsettled.clear();
    for (const command of unsettled) command.settle(failure);
  }
}

const GARBLED: NodeFailure = {
  kind: 'failed',
  nothingWritten: false,
  reason: 'error',
  message: 'unexpected reply',
};
