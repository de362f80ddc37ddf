import type { Environment } from '../environment.ts';
import type { NodeCause } from '../errors.ts';
import { EventSink, type LockEvent } from '../events.ts';
import { inSeconds } from '../options/duration.ts';
import { FLOOR_RETENTION_MS, PROTOCOL_VERSIONS } from '../options/options.ts';
import type { ResolvedOptions } from '../options/resolve-options.ts';
import { Configurations } from './configuration.ts';
import { Alarm, Deadlines, ServiceClock } from '../deadlines.ts';
import type {
  JoinRequest,
  LinkSettings,
  LockNode,
  ReleaseReply,
  ReleaseRequest,
  VoteReply,
  VoteRequest,
} from './lock-node.ts';
import { channelOf, NodeNames } from './node-names.ts';

const SLOW_WARNING_PAUSE_MS = 60_000;
export const MINIMUM_SILENCE_LIMIT_MS = 2_000;

/** A sender of messages. It waits for answers from the moment at which the bytes were handed to the sockets. */
export interface Collected {
  sent(nowMs: number): void;
}

/** The messages that the nodes have collected. They leave when the present tick ends, or with the process. */
export class CollectedMessages {
  readonly #nodes: readonly LockNode[];
  readonly #environment: Environment;
  readonly #clock: ServiceClock;
  readonly #collected: Collected[] = [];
  readonly #flush = this.flush.bind(this);
  #isFlushDue = false;
  #leaveExit: (() => void) | undefined;

  constructor(nodes: readonly LockNode[], environment: Environment, clock: ServiceClock) {
    this.#nodes = nodes;
    this.#environment = environment;
    this.#clock = clock;
  }

  open(): void {
    this.#leaveExit = this.#environment.atExit(this.#flush);
  }

  /** A node collects instead of writing: it is flushed when the present tick ends. `collected.sent` is called then. */
  flushLater(collected?: Collected): void {
    if (collected !== undefined) this.#collected.push(collected);
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    this.#environment.endOfTick(this.#flush);
  }

  flush(): void {
    if (!this.#isFlushDue) return;
    this.#isFlushDue = false;
    for (const node of this.#nodes) node.flush();
    const { nowMs } = this.#clock;
    for (const collected of this.#collected.splice(0)) collected.sent(nowMs);
  }

  close(): void {
    this.flush();
    this.#leaveExit?.();
  }
}

/** The parts of one service that its nodes share. */
export abstract class Service {
  readonly options: ResolvedOptions;
  readonly environment: Environment;
  readonly clock: ServiceClock;
  /** The deadlines of callers, of requests whose answer a caller awaits, and of nodes that owe an answer. */
  readonly answers: Deadlines;
  /** The deadlines of held locks and of work in the background; they don't keep a process alive. */
  readonly alarms: Deadlines;
  readonly outgoing: CollectedMessages;
  readonly events: EventSink;
  readonly quorum: Quorum;
  readonly configurations: Configurations;
  /** The beginning of all holders of this service. */
  readonly mark: string;
  abstract readonly sessions: readonly ServiceNode[];

  constructor(
    nodes: readonly LockNode[],
    options: ResolvedOptions,
    environment: Environment,
    listener: { doubted(): void },
  ) {
    this.options = options;
    this.environment = environment;
    this.mark = environment.random.mark();
    const clockMoved = (): void => {
      listener.doubted();
      for (const deadlines of [this.alarms, this.answers]) deadlines.callDue();
    };
    // Waits for the end of the tick: a getter may have looked at the clock.
    this.clock = new ServiceClock(environment.clock, () => environment.endOfTick(clockMoved));
    const nowMs = () => this.clock.nowMs;
    this.answers = new Deadlines(environment, nowMs);
    this.alarms = new Deadlines(environment, nowMs, true);
    this.outgoing = new CollectedMessages(nodes, environment, this.clock);
    this.quorum = new Quorum(this);
    this.events = new EventSink(options.onEvent, (event) => this.quorum.look(event));
    const addresses = nodes.map(({ address }) => address);
    this.configurations = new Configurations(addresses, options.quorum, this.events);
  }

  /** All nodes, as bits. */
  get allBits(): number {
    return (1 << this.sessions.length) - 1;
  }

  /** Notifies these nodes, as bits, that a lock is over; what can't be delivered is repeated until `untilMs`. */
  release(nodes: number, request: ReleaseRequest, untilMs: number, by?: ReleaseCollector): void {
    let isCollected = false;
    for (const node of this.sessions) {
      if ((nodes & (1 << node.index)) === 0) continue;
      if (node.release(request, untilMs, by)) isCollected = true;
    }
    if (isCollected) this.outgoing.flushLater(by);
  }

  /** The channel on which nodes say whose turn it is. */
  get channel(): string {
    return channelOf(this.options.keyPrefix, this.mark);
  }

  get linkSettings(): LinkSettings & { readonly join: JoinRequest } {
    const { acquire, keyPrefix, restartGuardMs, maxLagMs, identity: text } = this.options;
    const { marker, processes } = new NodeNames(keyPrefix, []);
    return {
      silenceLimitMs: Math.max(2 * acquire.nodeTimeoutMs, MINIMUM_SILENCE_LIMIT_MS),
      join: {
        markerName: marker,
        restartGuardMs,
        floorRetentionMs: FLOOR_RETENTION_MS,
        versions: PROTOCOL_VERSIONS,
        configuration: this.configurations.text,
        failover: maxLagMs !== undefined,
      },
      identity: text === undefined ? undefined : { name: processes + this.mark, text },
    };
  }
}

export function waitsForGuard(leftMs: number): string {
  return `gives no locks for ${inSeconds(leftMs)} more (restart guard)`;
}

/** The party that asked for votes: receives each node's answer once, by its index. */
export interface VoteCollector extends Collected {
  readonly vote: VoteRequest;
  readonly ended: boolean;
  collect(index: number, reply: VoteReply): void;
}

/** The party that released a lock: receives what became of it at each node once. */
export interface ReleaseCollector extends Collected {
  released(node: ServiceNode, reply: ReleaseReply): void;
}

/** A node, as far as it is known whether it votes. */
export interface ServiceNode {
  readonly index: number;
  readonly address: string;
  readonly state: 'down' | 'joining' | 'voting' | 'closed';
  readonly votesAtMs: number;
  readonly connection: { readonly isSilent: boolean };
  /** The server that votes for it; undefined while none does. */
  readonly server: string | undefined;
  readonly health: {
    readonly problem: string;
    readonly reported: 'nothing' | 'joined' | 'left' | 'failing';
  };
  /** Returns whether that leaves with the next flush. */
  release(request: ReleaseRequest, untilMs: number, by?: ReleaseCollector): boolean;
}

interface Outage {
  readonly sinceMs: number;
  refusedCalls: number;
  isReported: boolean;
  /** Nodes said so themselves, and will say when it is over. */
  isSeen: boolean;
}

/**
 * The nodes as a whole: whether enough of them vote, and how long that takes. Reports the outage of a quorum once, and its end
 * once. `node-left` alone is none, because most connections are made again at once: a call that is refused makes it one, or too
 * many nodes that are failing or in quarantine.
 */
export class Quorum {
  /** Typical time until a quorum has answered; a guess until measured. */
  roundTripMs = 2;
  /** When a quorum of nodes last answered a try. */
  lastAnswerAtMs = Number.NEGATIVE_INFINITY;
  /** The outage that lasts. Before the first quorum it has no beginning, and is no news. */
  outage: Outage | undefined = {
    sinceMs: Number.NEGATIVE_INFINITY,
    refusedCalls: 0,
    isReported: true,
    isSeen: true,
  };
  readonly #service: Service;
  readonly #quarantineEnd = new Alarm(() => this.look());
  #isMeasured = false;
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(service: Service) {
    this.#service = service;
  }

  /** When a quorum of the nodes that have joined is out of quarantine; infinite while too few have joined. */
  get votesAtMs(): number {
    const joined = this.#service.sessions.filter(({ state }) => state === 'voting');
    const times = joined.map(({ votesAtMs }) => votesAtMs).sort((one, other) => one - other);
    return times[this.#service.options.quorum - 1] ?? Number.POSITIVE_INFINITY;
  }

  /** Too few nodes vote now, as far as that was reported. */
  get isMissing(): boolean {
    return this.#service.sessions.length - this.#missingVotes.length < this.#service.options.quorum;
  }

  /** So many nodes are failing or in quarantine that no quorum votes. */
  get #isAway(): boolean {
    const { sessions, clock, options } = this.#service;
    const { nowMs } = clock;
    const isAway = ({ health: { reported }, votesAtMs }: ServiceNode) =>
      reported === 'failing' || (reported === 'joined' && votesAtMs > nowMs);
    return sessions.length - sessions.filter(isAway).length < options.quorum;
  }

  /** The nodes that don't vote now, as far as that was reported, and why. */
  get #missingVotes(): NodeCause[] {
    const { sessions, clock } = this.#service;
    return sessions.flatMap(({ address, health, votesAtMs, state, connection }): NodeCause[] => {
      const leftMs = votesAtMs - clock.nowMs;
      const refuses =
        state !== 'voting' ? 'unreachable' : connection.isSilent ? 'timeout' : 'error';
      if (health.reported !== 'joined')
        return [{ address, reason: refuses, message: health.problem, elapsedMs: 0 }];
      const message = waitsForGuard(leftMs);
      return leftMs > 0 ? [{ address, reason: 'quarantined', message, elapsedMs: 0 }] : [];
    });
  }

  /** Learns how long it took to answer a round. */
  measured(startedAtMs: number, endedAtMs: number, ttlMs: number): void {
    const elapsedMs = endedAtMs - startedAtMs;
    // Because this process did not run beyond that, callers must not wait so long before a try, or end so early without one.
    const tripMs = Math.min(elapsedMs, this.#service.options.acquire.nodeTimeoutMs);
    const differenceMs = tripMs - this.roundTripMs;
    // Longer ones are often pauses of this process, and one that waits longer than others for its turn never has it.
    if (!this.#isMeasured) this.roundTripMs = tripMs;
    else this.roundTripMs += differenceMs / (differenceMs < 0 ? 2 : 8);
    this.#isMeasured = true;
    if (elapsedMs <= ttlMs / 10 || endedAtMs - this.#warnedAtMs < SLOW_WARNING_PAUSE_MS) return;
    this.#warnedAtMs = endedAtMs;
    this.#service.events.emit({ type: 'slow-quorum', roundTripMs: elapsedMs, ttlMs });
  }

  /** @param event that may have begun or ended an outage */
  look(event?: LockEvent): void {
    if (event?.type === 'unavailable') return this.#refused(event.causes);
    const { alarms, clock } = this.#service;
    const { nowMs } = clock;
    if (this.isMissing) {
      const waitMs = this.votesAtMs - nowMs;
      if (waitMs > 0 && waitMs !== Number.POSITIVE_INFINITY)
        alarms.set(this.#quarantineEnd, Math.ceil(waitMs), nowMs);
      const outage = this.#begin(nowMs);
      outage.isSeen = true;
      if (this.#isAway) this.#report(outage, this.#missingVotes);
    } else if (this.outage !== undefined) this.#end(this.outage, nowMs);
  }

  #refused(causes: readonly NodeCause[]): void {
    // Servers are not at fault where this process did not ask them, or did not run.
    if (causes[0]?.address === 'this process') return;
    const outage = this.#begin(this.#service.clock.nowMs);
    outage.refusedCalls += 1;
    const awaited = causes.filter(({ reason }) => reason !== 'not-awaited');
    this.#report(outage, awaited);
  }

  #begin(nowMs: number): Outage {
    const outage = { sinceMs: nowMs, refusedCalls: 0, isReported: false, isSeen: false };
    return (this.outage ??= outage);
  }

  #report(outage: Outage, causes: readonly NodeCause[]): void {
    if (outage.isReported) return;
    outage.isReported = true;
    this.#service.events.emit({ type: 'quorum-lost', causes });
  }

  /** Ends an outage in which all nodes seemed well with the next quorum that answers. */
  #end({ sinceMs, refusedCalls, isReported, isSeen }: Outage, nowMs: number): void {
    if (!isSeen && this.lastAnswerAtMs <= sinceMs) return;
    this.outage = undefined;
    if (isReported && sinceMs !== Number.NEGATIVE_INFINITY)
      this.#service.events.emit({ type: 'quorum-back', downMs: nowMs - sinceMs, refusedCalls });
  }
}
