import type { Clock } from '../../core/environment.ts';
import type * as port from '../../core/nodes/lock-node.ts';
import { systemEnvironment } from '../../core/system-environment.ts';
import * as replies from '../../redis/commands/replies.ts';
import { gateName } from '../../redis/scripts.ts';
import * as scripts from './compiled-scripts.ts';
import type { LuaScript } from './lua-runtime.ts';
import { NOSCRIPT, refused } from './memory-fault.ts';
import { MemoryRedis, type MemorySnapshot } from './memory-redis.ts';

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
   * A new server, which gives locks only after its restart guard, as one after {@link MemoryLockServer.restart} does. Otherwise it
   * is as one that has run for long: there is nothing it could have forgotten. @default false
   */
  readonly fresh?: boolean;
}

let serverCount = 0;
let startCount = 0;
/** Digits in front, because scripts tell starts of servers apart by their first eight characters. */
const newRunId = (): string => String(++startCount).padStart(8, '0').padEnd(40, 'memory');

/**
 * Redis server in memory, with its own clock: it executes the very scripts that the package sends to a Redis.
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
  /** The name of its nodes in messages, unless they have their own: `memory:1`, counting up. */
  readonly address = `memory:${++serverCount}`;
  /** Changes with every start. */
  #runId = newRunId();
  /** The markers that were there long before their first join, on a server that has run for long; none on any other. */
  #servedMarkers: Set<string> | undefined;
  readonly #redis: MemoryRedis;
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
    this.#servedMarkers = options.fresh === true ? undefined : new Set();
    const nowMicros = () => clock.wallMicros() + this.#clockOffsetMs * 1000;
    this.#redis = new MemoryRedis(nowMicros, (section) => this.#info(section), this.#publish);
  }

  /** False after {@link kill}, until {@link restart}. */
  get running(): boolean {
    return this.#running;
  }

  /** True after {@link freeze}, until {@link resume}. */
  get frozen(): boolean {
    return this.#frozen;
  }

  /** Changes with every start of the server. */
  get runId(): string {
    return this.#runId;
  }

  /** False from a restart (or {@link forgetScripts}) until the next join: acquire and extend fail with NOSCRIPT. */
  get knowsScripts(): boolean {
    return this.#scripts.has(this.#runId);
  }

  /**
   * Runs a Redis command as an operator would: to look at keys, or to damage them in a test. It knows the commands and the
   * options that locks use; others throw.
   *
   * @returns the answer of Redis; `null` for nil
   * @throws Error with the message of the server
   *
   * @example
   * ```ts
   * const server = new MemoryLockServer();
   * RedlockModule.forRoot({ nodes: createMemoryNodes([server]) });
   * server.call('GET', 'lock:report'); // the holder, or null
   * server.call('DEL', 'lock:report'); // the holder finds out at its next extension
   * ```
   */
  call(name: string, ...values: (string | number)[]): any {
    const answer = this.#redis.call(name.toUpperCase(), ...values);
    return answer?.ok ?? answer;
  }

  join(request: port.JoinRequest): port.JoinReply {
    const { markerName, restartGuardMs, floorRetentionMs, versions, configuration } = request;
    if (this.#servedMarkers?.has(markerName) === false) this.#joinLongAgo(request);
    const names = [markerName, gateName(markerName), `${markerName}:configurations`];
    const values = [restartGuardMs, floorRetentionMs, ...versions, configuration, '-', '', ''];
    const parse = (answer: unknown): port.JoinReply => {
      const { start: _start, salt: _salt, ...reply } = replies.parseJoinReply(answer) as any;
      return reply;
    };
    const reply = this.#run(scripts.join, names, values, parse);
    if (reply.kind === 'joined') this.#scripts.add(this.#runId);
    return reply;
  }

  /** @param start the run id that was joined on the connection: its scripts are asked for */
  acquire(request: port.AcquireRequest, start = this.#runId): port.AcquireReply {
    const { names, holder, ballot, ttlMs } = request;
    const keys = [names.marker, gateName(names.marker), ...names.pairs];
    const parse = (answer: unknown) => replies.parseAcquireReply(answer, request);
    return this.#vote(start, scripts.acquire, keys, [digitsOf(ballot), holder, ttlMs], parse);
  }

  /** @param start as in {@link acquire} */
  extend(
    { names, holder, ballot, ttlMs }: port.ExtendRequest,
    start = this.#runId,
  ): port.ExtendReply {
    const keys = [names.marker, ...names.pairs];
    const values = [digitsOf(ballot), holder, ttlMs];
    return this.#vote(start, scripts.extend, keys, values, replies.parseExtendReply);
  }

  release({ names, holder, granted, pass, keepMs }: port.ReleaseRequest): port.ReleaseReply {
    const keys = granted ? names.locks : names.pairs;
    const next = keepMs === undefined ? Number(pass) : `keep ${keepMs}`;
    const values = [holder, Number(granted), next];
    return this.#run(scripts.release, keys, values, replies.parseReleaseReply);
  }

  wait({ names, member, ticket, lifeMs }: port.WaitRequest): port.WaitReply {
    return this.#run(scripts.wait, names.locks, [member, ticket, lifeMs], replies.parseWaitReply);
  }

  inspect({ names }: port.InspectRequest): port.InspectReply {
    return this.#run(scripts.inspect, names.pairs, [names.processes], replies.parseInspectReply);
  }

  revoke(request: port.RevokeRequest): port.RevokeReply {
    const { names, holder, value, leastMs, channel, floor } = request;
    const keys = names.pairs.slice(0, 2);
    const digits = floor === undefined ? '' : digitsOf(floor);
    const values = [holder, value, Math.ceil(leastMs), channel, digits];
    return this.#run(scripts.revoke, keys, values, replies.parseRevokeReply);
  }

  list({ keyPrefix, keysBegin, most }: port.ListRequest): port.ListReply {
    const names = this.#redis
      .names(keyPrefix + keysBegin)
      .filter((name) => !name.startsWith(`${keyPrefix}#`));
    return { kind: 'listed', names: names.slice(0, most), isComplete: names.length <= most };
  }

  examine(): port.NodeFacts {
    return {
      kind: 'facts',
      runId: this.#runId,
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
    return this.call('DEL', lockName) === 1;
  }

  /** FLUSHALL: every key is gone, connections and scripts stay. */
  flush(): void {
    this.#redis.clear();
    this.#servedMarkers = undefined;
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
    if (options.snapshot) this.#redis.load(options.snapshot);
    else if (!options.keepData) this.#redis.clear();
    this.#begin();
    this.#running = true;
  }

  /** @internal Takes the data of another server, and begins as a new one: a replica that is made the primary. */
  takeOver(snapshot: MemorySnapshot): void {
    this.#redis.load(snapshot);
    this.#begin();
  }

  /** The present data, for a later {@link restart} from an older dump. */
  snapshot(): MemorySnapshot {
    return this.#redis.dump();
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

  #begin(): void {
    this.#runId = newRunId();
    this.#servedMarkers = undefined;
  }

  #info(section: string): string {
    if (section === 'server') return `run_id:${this.#runId}\r\n`;
    return `role:master\r\nmaster_replid:${this.#runId}\r\n`;
  }

  /** Leaves the marker of a process that joined longer ago than any guard lasts. */
  #joinLongAgo({ markerName, restartGuardMs, floorRetentionMs, versions }: port.JoinRequest): void {
    const reign = this.#runId + this.#runId;
    this.#servedMarkers!.add(markerName);
    // In 1970, so that a test may set its clock back as far as it likes.
    const voteAfterMs = restartGuardMs;
    const words = [versions.join('-'), voteAfterMs, reign, restartGuardMs, floorRetentionMs, '-'];
    this.call('SET', markerName, words.join(' '));
  }

  #vote<Reply>(
    start: string,
    script: LuaScript,
    keys: readonly string[],
    values: readonly (string | number)[],
    parse: (answer: unknown) => Reply,
  ): Reply | port.NodeFailure {
    if (!this.#scripts.has(start)) return NOSCRIPT;
    // Its scripts find out that it was a replica since that start, and vote no more.
    const current = start === this.#runId ? start.slice(0, 8) : '';
    return this.#run(script, keys, values, parse, current);
  }

  #run<Reply>(
    script: LuaScript,
    keys: readonly string[],
    values: readonly (string | number)[],
    parse: (answer: unknown) => Reply,
    start?: string,
  ): Reply | port.NodeFailure {
    let answer: unknown;
    try {
      answer = this.#redis.run(script, keys, values, start);
    } catch (error) {
      return refused((error as Error).message);
    }
    return parse(answer);
  }
}

/** Ballots are compared as texts of 16 digits. */
function digitsOf(ballot: number): string {
  return String(ballot).padStart(16, '0');
}
