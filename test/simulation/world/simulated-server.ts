import { MemoryLockServer } from '../../../lib/testing/index.ts';
import type { MemorySnapshot } from '../../../lib/testing/index.ts';
import { EPOCH_MS } from './simulated-process.ts';
import type { Trace } from './trace.ts';
import { textOf } from '../network/wire-command.ts';
import type { WireCommand } from '../network/wire-command.ts';
import type { World } from './world.ts';

/** Replies of a server that is in trouble, and the commands that get them. None of these commands writes anything. */
export const ERROR_REPLIES = {
  OOM: ['join', 'acquire', 'extend'],
  READONLY: ['join', 'acquire', 'extend', 'release'],
  LOADING: ['join', 'acquire', 'extend', 'release', 'inspect'],
  NOAUTH: ['join', 'acquire', 'extend', 'release', 'inspect'],
  BUSY: ['join', 'acquire', 'extend', 'release', 'inspect'],
} as const;

export type ErrorReply = keyof typeof ERROR_REPLIES;

/** Data with which a server comes back: its own, none, or an older dump. */
export type RestartData = 'kept' | 'empty' | 'older';

export interface ServerSettings {
  /** Speed of its clock against true time. */
  readonly clockRate: number;
  /** Lead of its clock at the start, ms. */
  readonly clockErrorMs: number;
}

/** A server that connections are made to. */
export interface ServerPeer {
  serverDied(): void;
}

/** Redis with its own clock: the shipped rules of a node (`MemoryLockServer`) behind a process that can stop and fail. */
export class SimulatedServer {
  readonly index: number;
  /** Behind its address at the moment. */
  memory: MemoryLockServer;
  #standby: MemoryLockServer;
  readonly peers = new Set<ServerPeer>();
  /** Process is stopped (SIGSTOP). */
  frozen = false;
  /** Reply that stands for what it refuses. */
  error: ErrorReply | undefined;
  /** Duration of one command. */
  serviceMs = 0;
  /** Called before each command. */
  onCommand: (command: WireCommand) => void = () => {};
  #troubledUntilMs = 0;
  readonly #commandMs: number;
  #worksUntilMs = 0;
  clockErrorMs: number;
  readonly #world: World;
  readonly #trace: Trace;
  readonly #rate: number;
  readonly #backlog: (() => void)[] = [];
  #dump: MemorySnapshot | undefined;

  constructor(world: World, trace: Trace, index: number, settings: ServerSettings, commandMs = 0) {
    this.#commandMs = commandMs;
    this.#world = world;
    this.#trace = trace;
    this.index = index;
    this.#rate = settings.clockRate;
    this.clockErrorMs = settings.clockErrorMs;
    const clock = { wallMicros: () => this.#wallMicros() };
    this.memory = new MemoryLockServer({ clock, fresh: true });
    this.#standby = new MemoryLockServer({ clock, fresh: true });
  }

  get name(): string {
    return `n${this.index}`;
  }

  get running(): boolean {
    return this.memory.running;
  }

  /** Since when it has voted without an error; Infinity when it doesn't. */
  get wellSinceMs(): number {
    const isWell = this.running && !this.frozen && this.error === undefined && !this.serviceMs;
    const { knowsScripts, runId } = this.memory;
    const { marker } = this;
    if (!isWell || !knowsScripts || !marker?.reign.startsWith(runId)) return Infinity;
    if (marker.voteAfterMs - Math.floor(this.wallMs) > marker.restartGuardMs) return Infinity;
    return Math.max(this.#troubledUntilMs, this.whenItShows(marker.voteAfterMs));
  }

  /** When it has answered so many commands, after all those before. */
  worksUntilMs(commands: number): number {
    const { nowMs } = this.#world;
    this.#worksUntilMs = Math.max(nowMs, this.#worksUntilMs) + commands * this.#commandMs;
    const untilMs = Math.max(nowMs + this.serviceMs, this.#worksUntilMs);
    // Replies come in order: later ones wait for a slow one, also when the server is quick again.
    if (this.serviceMs > 0) this.#troubledUntilMs = Math.max(this.#troubledUntilMs, untilMs);
    return untilMs;
  }

  /** Notes that something was wrong until now. */
  troubled(): void {
    this.#troubledUntilMs = Math.max(this.#troubledUntilMs, this.#world.nowMs);
  }

  /** True time at which its clock shows `wallMs`, if it is not set until then. */
  whenItShows(wallMs: number): number {
    return (wallMs - EPOCH_MS - this.clockErrorMs) / this.#rate;
  }

  /** Runs `work` when the server's process runs. */
  whenRunning(work: () => void): void {
    if (this.frozen) this.#backlog.push(work);
    else work();
  }

  execute(command: WireCommand): unknown {
    this.onCommand(command);
    const reply = this.#execute(command);
    if (this.#trace.on)
      this.#trace.add(
        this.name,
        `${textOf(command)} of ${command.from} = ${JSON.stringify(reply)}`,
      );
    return reply;
  }

  freeze(): void {
    this.frozen = true;
  }

  resume(): void {
    this.frozen = false;
    for (const work of this.#backlog.splice(0)) work();
  }

  /** Saves the data that a later restart with older data starts from. */
  saveDump(): void {
    if (this.running) this.#dump = this.memory.snapshot();
  }

  /**
   * Lets its replica take its place behind the same address, with the data of the dump where replication lags, and it becomes the
   * replica. A promotion begins another reign, which the memory servers call another run.
   */
  swap(lags: boolean): void {
    if (!this.running) return;
    this.#standby.takeOver((lags && this.#dump) || this.memory.snapshot());
    [this.memory, this.#standby] = [this.#standby, this.memory];
    this.#dump = undefined;
  }

  kill(): void {
    this.frozen = false;
    this.memory.kill();
    for (const peer of this.peers) peer.serverDied();
    this.peers.clear();
    // Nothing of it is executed any more, but a client that waited for an answer to a connect receives one.
    for (const work of this.#backlog.splice(0)) work();
  }

  restart(data: RestartData): void {
    const older = data === 'older' ? this.#dump : undefined;
    this.memory.restart({ keepData: data === 'kept', ...(older && { snapshot: older }) });
  }

  #execute(command: WireCommand): unknown {
    const { kind } = command;
    const { error } = this;
    if (error !== undefined && (ERROR_REPLIES[error] as readonly string[]).includes(kind)) {
      return {
        kind: 'failed',
        nothingWritten: true,
        reason: 'error',
        message: `${error} simulated`,
      };
    }
    return command.run(this.memory);
  }

  /** What its clock shows, ms. */
  get wallMs(): number {
    return this.#wallMicros() / 1000;
  }

  /** What the last join left, undefined before the first one and after a flush. */
  get marker(): { voteAfterMs: number; reign: string; restartGuardMs: number } | undefined {
    const words = this.memory.call('GET', 'lock:#marker')?.split(' ');
    if (words === undefined) return undefined;
    return { voteAfterMs: Number(words[1]), reign: words[2], restartGuardMs: Number(words[3]) };
  }

  /** The value of a lock: its holder, or for whom it is kept. */
  holderOf(lock: string): string | null {
    return this.memory.call('GET', lock);
  }

  lockNames(): readonly string[] {
    const request = { keyPrefix: 'lock:', keysBegin: '', most: Number.MAX_SAFE_INTEGER };
    const reply = this.memory.list(request);
    return reply.kind === 'listed' ? reply.names : [];
  }

  /** Who stands in line for a lock, in the order of their tickets. */
  queueOf(lock: string): readonly { readonly member: string; readonly ticket: number }[] {
    const words: string[] = this.memory.call('ZRANGE', `${lock}#queue`, 0, -1, 'WITHSCORES');
    const members = words.filter((_, index) => index % 2 === 0);
    return members.map((member, index) => ({ member, ticket: Number(words[2 * index + 1]) }));
  }

  #wallMicros(): number {
    return Math.floor((EPOCH_MS + this.#world.nowMs * this.#rate + this.clockErrorMs) * 1000);
  }
}
