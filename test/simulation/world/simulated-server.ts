import type { MemorySnapshot } from '../../../lib/testing/index.ts';
import { EPOCH_MS } from './simulated-process.ts';
import { ReplyError, SimulatedRedis } from './simulated-redis.ts';
import type { Trace } from './trace.ts';
import type { World } from './world.ts';

/** What a server in trouble refuses: these commands, also in scripts; or everything. */
export const ERROR_REPLIES = {
  OOM: ['SET', 'PSETEX', 'ZADD'],
  READONLY: ['SET', 'PSETEX', 'PEXPIRE', 'DEL', 'ZADD', 'ZPOPMIN'],
  LOADING: undefined,
  NOAUTH: undefined,
  BUSY: undefined,
} as const satisfies Record<string, readonly string[] | undefined>;

export type ErrorReply = keyof typeof ERROR_REPLIES;

/** Data with which a server comes back: its own, none, or an older dump. */
export type RestartData = 'kept' | 'empty' | 'older';

export interface ServerSettings {
  /** Speed of its clock against true time. */
  readonly clockRate: number;
  /** Lead of its clock at the start, ms. */
  readonly clockErrorMs: number;
}

/** A connection, as a server sees it. */
export interface ServerPeer {
  /** The channel that it has subscribed to. */
  readonly channel?: string | undefined;
  serverDied(): void;
  published?(channel: string, message: string): void;
}

/** Redis with its own clock, whose process can stop and fail. */
export class SimulatedServer {
  readonly index: number;
  /** Behind its address at the moment. */
  redis: SimulatedRedis;
  #standby: SimulatedRedis;
  readonly peers = new Set<ServerPeer>();
  /** Process is stopped (SIGSTOP). */
  frozen = false;
  /** Reply that stands for what it refuses. */
  error: ErrorReply | undefined;
  /** Duration of one command. */
  serviceMs = 0;
  /** Called before each command. */
  onCommand: (words: readonly string[]) => void = () => {};
  running = true;
  #troubledUntilMs = 0;
  readonly #commandMs: number;
  #worksUntilMs = 0;
  clockErrorMs: number;
  /** When its clock last refused a number, whatever the server remembers of it. */
  refusedByClockAtMs = Number.NEGATIVE_INFINITY;
  readonly #world: World;
  readonly #trace: Trace;
  readonly #rate: number;
  readonly #backlog: (() => void)[] = [];
  #ids = 0;
  /** A client asks, and no operator. */
  #isAsked = false;
  #dump: MemorySnapshot | undefined;

  constructor(world: World, trace: Trace, index: number, settings: ServerSettings, commandMs = 0) {
    this.#commandMs = commandMs;
    this.#world = world;
    this.#trace = trace;
    this.index = index;
    this.#rate = settings.clockRate;
    this.clockErrorMs = settings.clockErrorMs;
    const start = () =>
      new SimulatedRedis(
        () => this.#wallMicros(),
        () => newId(index, ++this.#ids),
        (channel, message) => this.#publish(channel, message),
        (name) => this.#refusal(name),
      );
    this.redis = start();
    this.#standby = start();
  }

  get name(): string {
    return `n${this.index}`;
  }

  /** Since when it has voted without an error; Infinity when it doesn't. */
  get wellSinceMs(): number {
    const isWell = this.running && !this.frozen && this.error === undefined && !this.serviceMs;
    const { knowsScripts, reign } = this.redis;
    const { marker } = this;
    if (!isWell || !knowsScripts || marker?.reign !== reign) return Infinity;
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

  /** Executes a command. Returns its answer, or the error in place of it. */
  execute(words: readonly string[], from: string): unknown {
    this.onCommand(words);
    const answer = this.#answer(words);
    if (this.#trace.on)
      this.#trace.add(this.name, `${textOf(words)} of ${from} = ${JSON.stringify(answer)}`);
    return answer;
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
    if (this.running) this.#dump = this.redis.data.dump();
  }

  /**
   * Lets its replica take its place behind the same address, with the data of the dump where replication lags, and it becomes the
   * replica.
   */
  swap(lags: boolean): void {
    if (!this.running) return;
    this.#standby.promote((lags && this.#dump) || this.redis.data.dump());
    [this.redis, this.#standby] = [this.#standby, this.redis];
    this.#dump = undefined;
  }

  kill(): void {
    this.frozen = this.running = false;
    for (const peer of this.peers) peer.serverDied();
    this.peers.clear();
    // Nothing of it is executed any more, but a client that waited for an answer to a connect receives one.
    for (const work of this.#backlog.splice(0)) work();
  }

  restart(data: RestartData): void {
    const older = data === 'older' ? this.#dump : undefined;
    if (older) this.redis.data.load(older);
    else if (data !== 'kept') this.redis.data.clear();
    this.redis.restart();
    this.running = true;
  }

  #answer(words: readonly string[]): unknown {
    const { error } = this;
    this.#isAsked = true;
    try {
      if (error !== undefined && ERROR_REPLIES[error] === undefined)
        throw new ReplyError(`${error} simulated`);
      return this.redis.execute(words);
    } catch (thrown) {
      return thrown;
    } finally {
      this.#isAsked = false;
    }
  }

  #refusal(name: string): string | undefined {
    const refused: readonly string[] =
      (this.#isAsked && this.error && ERROR_REPLIES[this.error]) || [];
    return refused.includes(name) ? `${this.error} simulated` : undefined;
  }

  #publish(channel: string, message: string): number {
    const receivers = [...this.peers].filter((peer) => peer.channel === channel);
    for (const peer of receivers) peer.published?.(channel, message);
    return receivers.length;
  }

  /** What its clock shows, ms. */
  get wallMs(): number {
    return this.#wallMicros() / 1000;
  }

  /** What the last join left, undefined before the first one and after a flush. */
  get marker(): { voteAfterMs: number; reign: string; restartGuardMs: number } | undefined {
    const words = this.redis.data.call('GET', 'lock:#marker')?.split(' ');
    if (words === undefined) return undefined;
    return { voteAfterMs: Number(words[1]), reign: words[2], restartGuardMs: Number(words[3]) };
  }

  /** The value of a lock: its holder, or for whom it is kept. */
  holderOf(lock: string): string | null {
    return this.redis.data.call('GET', lock);
  }

  /** The latest ballot under the name of a floor. */
  floorOf(floor: string): number {
    return Number(this.redis.data.call('GET', floor)?.slice(0, 16));
  }

  lockNames(): readonly string[] {
    return this.redis.data.names('lock:').filter((name) => !name.startsWith('lock:#'));
  }

  /** Who stands in line for a lock, in the order of their tickets. */
  queueOf(lock: string): readonly { readonly member: string; readonly ticket: number }[] {
    const words: string[] = this.redis.data.call('ZRANGE', `${lock}#queue`, 0, -1, 'WITHSCORES');
    const members = words.filter((_, index) => index % 2 === 0);
    return members.map((member, index) => ({ member, ticket: Number(words[2 * index + 1]) }));
  }

  #wallMicros(): number {
    return Math.floor((EPOCH_MS + this.#world.nowMs * this.#rate + this.clockErrorMs) * 1000);
  }
}

/** An id of 40 characters, of which eight are enough to tell it from others. */
function newId(server: number, number: number): string {
  return `${server}${String(number).padStart(7, '0')}`.padEnd(40, 'f');
}

/** Commands in the trace: scripts by the beginning of their texts or digests. */
function textOf(words: readonly string[]): string {
  return words.map((word) => (word.length > 60 ? `${word.slice(0, 12)}…` : word)).join(' ');
}
