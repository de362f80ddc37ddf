import type { Wire, WireCommand, WireListener } from '../../../lib/redis/wire.ts';
import { NOT_WRITABLE } from '../../../lib/redis/wire.ts';
import type { Chance } from '../world/chance.ts';
import { ReplyError } from '../world/simulated-redis.ts';
import type { SimulatedProcess } from '../world/simulated-process.ts';
import type { ServerPeer, SimulatedServer } from '../world/simulated-server.ts';
import type { World } from '../world/world.ts';
import type { NetworkPath } from './network-path.ts';

/** Everything that one connection stands between. */
export interface WireEnds {
  readonly world: World;
  readonly chance: Chance;
  readonly process: SimulatedProcess;
  readonly server: SimulatedServer;
  readonly path: NetworkPath;
  /** Price of writing or reading one command for the process. */
  readonly commandMs: number;
  /** The service has said something to the node, written or not. */
  given(): void;
  /** These leave together; `wasAsked`: answers were due before them. */
  left(packet: readonly (readonly string[])[], wasAsked: boolean): void;
}

/** Commands that arrive late one after the other, each by as much as the fault says. */
export const MAX_REMEMBERED = 6;

/** A command as words, which have left at some time: a stalled process is ahead of the others. */
interface Sent {
  readonly words: readonly string[];
  readonly command: WireCommand;
  readonly leavesMs: number;
  /** The number of requests in it, of which each has its price. */
  readonly requests: number;
}

/**
 * Connection in virtual time: each direction keeps its order, whatever the delays. When it ends, what was on its way may be lost, or
 * arrive and be executed much later, and nobody receives the reply.
 */
export class SimulatedWire implements Wire, ServerPeer {
  problem = 'not connected yet';
  isReady = false;
  channel: string | undefined;
  /** Connection is forgotten by something between: nothing passes any more, and neither end is notified. */
  isForgotten = false;
  readonly closed: Promise<unknown>;
  readonly #ends: WireEnds;
  readonly #listener: WireListener;
  #isOpen = true;
  #isServerOpen = false;
  readonly #unsettled = new Set<WireCommand>();
  readonly #executed: (readonly string[])[] = [];
  readonly #inFlight: Sent[] = [];
  #requestArrivesMs = 0;
  #replyArrivesMs = 0;
  #hasClosed!: (value?: unknown) => void;

  constructor(ends: WireEnds, listener: WireListener) {
    this.#ends = ends;
    this.#listener = listener;
    this.closed = new Promise((resolve) => (this.#hasClosed = resolve));
    const { world, process, path, server } = ends;
    world.at(process.nowMs + path.delayMs(), () =>
      path.passRequest(() => {
        if (!server.running || path.refused) this.#lose('refused');
        else server.whenRunning(() => this.#accept());
      }),
    );
  }

  get isAsked(): boolean {
    return this.#unsettled.size > 0;
  }

  write(commands: readonly WireCommand[]): void {
    const { world, process, path, server, commandMs } = this.#ends;
    if (!process.alive) return;
    if (!this.isReady || !this.#isOpen) {
      for (const command of commands)
        void Promise.resolve().then(() => command.refused(new Error(NOT_WRITABLE)));
      return;
    }
    const wasAsked = this.isAsked;
    const written = commands.map((command) => {
      this.#unsettled.add(command);
      const words = command.words.map(String);
      return { command, words, requests: server.redis.requestsIn(words).length || 1 };
    });
    process.spend(sumOf(written) * commandMs);
    const leavesMs = process.nowMs;
    const packet = written.map((each) => ({ ...each, leavesMs }));
    this.#inFlight.push(...packet);
    this.#requestArrivesMs = Math.max(this.#requestArrivesMs, leavesMs + path.delayMs(leavesMs));
    world.at(this.#requestArrivesMs, () => path.passRequest(() => this.#arrive(packet)));
    this.#ends.left(
      packet.map(({ words }) => words),
      wasAsked,
    );
  }

  subscribe(channel: string): Promise<unknown> {
    return new Promise((answered, refused) =>
      this.write([{ words: ['subscribe', channel], answered, refused }]),
    );
  }

  hold(): void {}

  /** Our own side ends it, and hears of it a moment later. */
  close(): void {
    this.isReady = false;
    this.#loseRequests(0);
    this.#closeServerSide();
    void Promise.resolve().then(() => this.#ended('closed'));
  }

  published(channel: string, message: string): void {
    const { chance, path } = this.#ends;
    if (!chance.happens(path.lostHints))
      this.#reply(1, () => this.#listener.message(channel, message));
  }

  /** The way between broke, or the client left: both sides end, the client's at once. */
  breakOff(message: string, lateByMs: number): void {
    this.#loseRequests(lateByMs);
    this.#closeServerSide();
    this.#lose(message);
  }

  serverDied(): void {
    this.#isServerOpen = false;
    this.#inFlight.length = 0;
    const { world, path } = this.#ends;
    world.after(path.delayMs(), () => path.passReply(() => this.#lose('the server died')));
  }

  /** A proxy sends again what it sent before: executed a second time, and nobody receives the reply. */
  duplicate(afterMs: number): void {
    const { world, server } = this.#ends;
    for (const words of this.#executed.slice())
      world.after(afterMs, () => server.whenRunning(() => this.#executeAgain(words)));
  }

  /** The client's process died: what it sent is still on its way. */
  abandon(lateByMs: number): void {
    this.#isOpen = this.isReady = false;
    this.#unsettled.clear();
    this.#loseRequests(lateByMs);
    this.#closeServerSide();
  }

  #accept(): void {
    const { world, process, path, server } = this.#ends;
    if (!this.#isOpen || !process.alive) return;
    if (!server.running) return this.#lose('refused');
    server.peers.add(this);
    this.#isServerOpen = true;
    const ready = (): void => {
      if (!this.#isOpen || this.isForgotten) return;
      this.isReady = true;
      this.#listener.ready();
    };
    world.after(path.delayMs(), () => path.passReply(() => process.deliver(ready)));
  }

  #arrive(packet: readonly Sent[]): void {
    if (!this.#isServerOpen || this.isForgotten) return;
    const { server } = this.#ends;
    server.whenRunning(() => this.#execute(packet));
  }

  #execute(packet: readonly Sent[]): void {
    if (!this.#isServerOpen || this.#inFlight[0] !== packet[0]) return;
    this.#inFlight.splice(0, packet.length);
    this.#executed.push(...packet.map(({ words }) => words));
    this.#executed.splice(0, this.#executed.length - MAX_REMEMBERED);
    const { path, chance } = this.#ends;
    const answers = packet.map(({ words }) => {
      const isGarbled = chance.happens(path.garbledReplies);
      const answer = this.#answer(words);
      return isGarbled ? 'garbled' : answer;
    });
    this.#reply(sumOf(packet), () => {
      for (const [index, { command }] of packet.entries()) {
        if (!this.#unsettled.delete(command)) continue;
        const answer = answers[index];
        if (answer instanceof ReplyError) command.refused(answer);
        else command.answered(answer);
      }
    });
  }

  #answer(words: readonly string[]): unknown {
    const { server, process } = this.#ends;
    if (words[0] !== 'subscribe') return server.execute(words, process.name);
    this.channel = words[1];
    return 1;
  }

  #executeAgain(words: readonly string[]): void {
    const { server, process } = this.#ends;
    if (server.running && words[0] !== 'subscribe') server.execute(words, process.name);
  }

  /** Lets something arrive at the client, after everything before. */
  #reply(count: number, arrive: () => void): void {
    if (!this.#isOpen) return;
    const { world, server, path, process, commandMs } = this.#ends;
    this.#replyArrivesMs = Math.max(
      this.#replyArrivesMs,
      server.worksUntilMs(count) + path.delayMs(),
    );
    const read = (): void => {
      if (!this.#isOpen) return;
      process.spend(count * commandMs);
      this.#listener.received();
      arrive();
    };
    world.at(this.#replyArrivesMs, () =>
      path.passReply(() => {
        if (!this.isForgotten) process.deliver(read);
      }),
    );
  }

  /** Some of what is on its way still arrives, from the first byte on, possibly late; a command as a whole or not at all. */
  #loseRequests(lateByMs: number): void {
    const { world, server, chance } = this.#ends;
    const left = this.#inFlight.splice(0).filter(({ leavesMs }) => leavesMs <= world.nowMs);
    const arriving = left.slice(0, chance.integer(0, MAX_REMEMBERED));
    if (!this.#isServerOpen || this.isForgotten) return;
    let atMs = world.nowMs;
    for (const { words } of arriving) {
      atMs += chance.between(0, lateByMs);
      const peer: ServerPeer = { serverDied: () => (isAlive = false) };
      let isAlive = true;
      server.peers.add(peer);
      world.at(atMs, () => {
        if (!isAlive) return;
        server.whenRunning(() => isAlive && this.#executeAgain(words));
        server.peers.delete(peer);
      });
    }
  }

  #closeServerSide(): void {
    this.#isServerOpen = false;
    this.#ends.server.peers.delete(this);
  }

  #lose(message: string): void {
    if (!this.isForgotten) this.#ends.process.deliver(() => this.#ended(message));
  }

  #ended(message: string): void {
    if (!this.#isOpen || !this.#ends.process.alive) return;
    this.#isOpen = this.isReady = false;
    this.problem = message;
    // Either order is allowed: open commands have been settled when the end is reported, or are settled after it.
    const settlesFirst = this.#ends.chance.happens(0.5);
    if (settlesFirst) this.#failUnsettled();
    this.#listener.ended();
    if (!settlesFirst) this.#failUnsettled();
    this.#hasClosed();
  }

  #failUnsettled(): void {
    const unsettled = [...this.#unsettled];
    this.#unsettled.clear();
    for (const command of unsettled) command.refused(new Error('Connection is closed.'));
  }
}

function sumOf(sent: readonly Pick<Sent, 'requests'>[]): number {
  return sent.reduce((sum, { requests }) => sum + requests, 0);
}
