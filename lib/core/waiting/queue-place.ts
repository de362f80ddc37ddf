import type { NodeCause } from '../errors.ts';
import { Deadline } from '../deadlines.ts';
import type { WaitReply, WaitRequest } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { jitterMs } from './back-off.ts';

/** The process asks again after so long, whatever was said: those in front may have stopped. No key is idle for half a second. */
export const POLL_MS = 400;
/** A node forgets a queue that nobody asked about for so long. */
const QUEUE_LIFE_MS = 10_000;
/** For so long, at least, a node keeps a free lock for this process; a set needs more, since it collects several turns. */
const LEAST_GRACE_MS = 10;
export const GRACE_OF_SET_MS = 40;
/** A caller that was not called tries so long after the end of a lease, and a few round trips. */
const LEAST_SLACK_MS = 10;

/** The holder of the key in another process, as a quorum of nodes said. */
export interface ForeignHolder {
  /** When it is worth asking again where nothing is heard before. */
  readonly untilMs: number;
  /** When its lease ends unless it is extended; undefined without TTL. */
  readonly freeAtMs: number | undefined;
  readonly causes: () => NodeCause[];
  /** Says which process it is, as far as that is known by then. */
  readonly process: () => string | undefined;
}

/** A key that callers here wait for. */
export interface QueuedKey {
  readonly key: string;
  /** The next of them wants other keys as well. */
  readonly isForSet: boolean;
  /** The place that the next of them asks for; undefined where that is up to the nodes. */
  readonly ticket: number | undefined;
  foreign: ForeignHolder | undefined;
  mayBeFree(nowMs: number, fromMs: number): void;
}

/**
 * The place of this process among those that wait for a key. Each node keeps a queue in the order of tickets. A ticket is the
 * time at which the process came, as a quorum of nodes saw it, and stays until the key is granted here: so all nodes have one
 * order, whatever their clocks say, and nobody has the key twice before one that waits has it once.
 */
export class QueuePlace extends Deadline {
  /**
   * - `asking`: no quorum has said yet where this process stands. Where none does in time, callers try by themselves.
   * - `behind`: a quorum has. It asks again when the lease of the holder, or the turn of the process before it, is over.
   * - `named`: a node keeps the key for this process. The other nodes have one round trip to say so, too.
   * - `called`: the first caller here was woken, and should have tried since.
   */
  #state: 'asking' | 'behind' | 'named' | 'called' = 'asking';
  readonly #nodes: NodeSet;
  readonly #key: QueuedKey;
  readonly #request: Omit<WaitRequest, 'ticket'>;
  readonly #graceMs: number;
  #ticket = 0;
  /** The tickets that nodes gave; the one that a quorum does not exceed becomes that of this process. */
  readonly #tickets = new Map<NodeSession, number>();
  /** When it is worth asking each node again. Every round of questions has a map of its own, by which late answers are known. */
  #freeInMs = new Map<NodeSession, number>();
  /** The nodes that keep the key for this process. */
  readonly #keptBy = new Set<NodeSession>();

  constructor(nodes: NodeSet, key: QueuedKey) {
    super();
    this.#nodes = nodes;
    this.#key = key;
    let graceMs = key.isForSet ? GRACE_OF_SET_MS : LEAST_GRACE_MS;
    // The grace grows in few steps: where the text of a place is a new one, the node looks for the old one in its whole queue.
    while (graceMs < 4 * nodes.quorum.roundTripMs + 5) graceMs *= 2;
    this.#graceMs = graceMs;
    const names = new NodeNames(nodes.options.keyPrefix, [key.key]);
    const member = `${nodes.mark} ${graceMs} ${nodes.channel}`;
    this.#request = { names, member, lifeMs: QUEUE_LIFE_MS };
  }

  /** Nodes keep the key for this process, which should try now. */
  get hasTurn(): boolean {
    return this.#state === 'called' && this.#keptBy.size > 0;
  }

  /** Takes its place at all nodes, or says that it still stands there. */
  stand(nowMs: number): void {
    const { sessions, alarms } = this.#nodes;
    this.#state = 'asking';
    this.#freeInMs = new Map();
    this.#keptBy.clear();
    for (const session of sessions) this.standAt(session);
    alarms.set(this, POLL_MS, nowMs);
  }

  standAt(session: NodeSession): void {
    const round = this.#freeInMs;
    this.#ticket ||= this.#atQuorum(this.#tickets) ?? 0;
    const request = { ...this.#request, ticket: this.#key.ticket ?? this.#ticket };
    session.wait(request, (reply) => this.#answered(round, session, reply));
    this.#nodes.outgoing.flushLater();
  }

  /** This node keeps the key for this process. */
  turn(session: NodeSession): void {
    const { options, quorum, alarms, clock } = this.#nodes;
    const isFirst = this.#keptBy.size === 0;
    this.#keptBy.add(session);
    if (this.#state !== 'called') this.#state = 'named';
    if (this.#keptBy.size >= options.quorum) this.#call(true);
    else if (isFirst) alarms.set(this, Math.max(1, Math.ceil(quorum.roundTripMs)), clock.nowMs);
  }

  /** A node keeps the key for the process before this one for so long: then it is worth asking again. */
  standBy(keptMs: number): void {
    if (this.#keptBy.size === 0) this.#lookIn(keptMs);
  }

  onDeadline(): void {
    const isCalled = this.#state === 'named' || this.#state === 'asking';
    if (isCalled && this.#call(this.#state === 'named')) return;
    const { alarms, clock } = this.#nodes;
    if (!this.hasTurn) return this.stand(clock.nowMs);
    // The callers that did not try, such as a set whose other key is in use, come back later, and behind the others. If a set came
    // back at once, and nobody else waited, it would be named again at once, and keep a free key from calls that don't wait.
    this.#ticket = 0;
    this.#tickets.clear();
    this.#keptBy.clear();
    this.#state = 'behind';
    alarms.set(this, POLL_MS, clock.nowMs);
  }

  /** Ends a round, for a try or for good: later answers count no more. */
  end(): void {
    this.#nodes.alarms.cancel(this);
    this.#freeInMs = new Map();
  }

  #answered(round: Map<NodeSession, number>, session: NodeSession, reply: WaitReply): void {
    if (reply.kind === 'failed') return;
    if (reply.ticket > 0 && !this.#tickets.has(session)) this.#tickets.set(session, reply.ticket);
    if (round !== this.#freeInMs || this.#state === 'called') return;
    round.set(session, Math.max(0, reply.freeInMs));
    if (reply.freeInMs < 0) this.turn(session);
    const freeInMs = this.#atQuorum(round);
    if (freeInMs === undefined || this.#keptBy.size > 0) return;
    this.#state = 'behind';
    if (freeInMs === 0) return void this.#call(false);
    const { clock, quorum } = this.#nodes;
    const { foreign } = this.#key;
    const slackMs = 4 * quorum.roundTripMs + LEAST_SLACK_MS;
    // The lease may be that of a vote which is given back: no evidence of a holder, but a reason not to ask before its end.
    if (foreign !== undefined)
      this.#key.foreign = { ...foreign, untilMs: clock.nowMs + freeInMs + slackMs };
    if (freeInMs < POLL_MS) this.#lookIn(freeInMs);
  }

  /**
   * Asks again when that time is over, unless it does before: an answer may be older than a turn that it heard of.
   *
   * Two sets that have each other's key would give up their turns, and get the other one, at the same moment, again and again. So
   * a set pauses for up to four round trips: at every second change, one of the two has both turns for a round trip.
   */
  #lookIn(ms: number): void {
    const { alarms, clock } = this.#nodes;
    const pauseMs = ms + 1 + (this.#key.isForSet ? jitterMs(this.#nodes, 4) : 0);
    if (this.dueMs > clock.nowMs + pauseMs) alarms.set(this, pauseMs, clock.nowMs);
  }

  /** The least number that a quorum of nodes does not exceed; undefined while fewer have answered. */
  #atQuorum(answers: ReadonlyMap<NodeSession, number>): number | undefined {
    const sorted = [...answers.values()].sort((one, other) => one - other);
    return sorted[this.#nodes.options.quorum - 1];
  }

  /**
   * Calls the first caller here: the key is kept for this process, or, where it is not `isKept`, free for anyone. Returns whether
   * it did. Where no holder was found, votes were split or the number was wrong, and back-off keeps the callers apart.
   */
  #call(isKept: boolean): boolean {
    if (this.#state === 'called' || (!isKept && this.#key.foreign === undefined)) return false;
    this.#state = 'called';
    const { alarms, clock } = this.#nodes;
    const { nowMs } = clock;
    // A process that has not tried by then has lost its turn.
    alarms.set(this, this.#graceMs, nowMs);
    this.#key.mayBeFree(nowMs, nowMs + (isKept ? 0 : jitterMs(this.#nodes)));
    return true;
  }
}
