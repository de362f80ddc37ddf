import type { NodeCause } from '../errors.ts';
import { Deadline } from '../deadlines.ts';
import type { WaitReply, WaitRequest } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { jitterMs } from './back-off.ts';

/** Stands in line again after so long, whatever was said: those in front may have stopped, and no key is idle for half a second. */
export const POLL_MS = 400;
/** Nodes forget a queue in which nobody stood for so long. */
const QUEUE_LIFE_MS = 10_000;
/** Least time for which a free lock is kept for this process, and that for a caller that waits for several keys at once. */
const LEAST_GRACE_MS = 10;
export const GRACE_OF_SET_MS = 40;
/** A head that was not called tries so late after the end of a lease, and a few round trips. */
const LEAST_SLACK_MS = 10;

/** The holder of the key in another process, as a quorum of nodes said. */
export interface ForeignHolder {
  /** When it is worth asking again, without a hint. */
  readonly untilMs: number;
  /** When its lease ends unless it is extended; undefined without TTL. */
  readonly freeAtMs: number | undefined;
  /** The answer of each node. */
  readonly causes: () => NodeCause[];
  /** The text on its process, as far as it is known by then. */
  readonly process: () => string | undefined;
}

/** A key that callers here wait for. */
export interface QueuedKey {
  readonly key: string;
  /** Says whether the next of them wants other keys as well. */
  readonly isForSet: boolean;
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
   * - `asking`: no quorum has said yet where this process stands. Callers ask by themselves where none does in time.
   * - `behind`: a quorum has. It asks again when the lease of the holder, or the turn of the process before it, is over.
   * - `named`: a node keeps the key for this process. The others have one round trip to say so, too.
   * - `called`: callers here should have tried since.
   */
  #state: 'asking' | 'behind' | 'named' | 'called' = 'asking';
  readonly #nodes: NodeSet;
  readonly #key: QueuedKey;
  readonly #request: Omit<WaitRequest, 'ticket'>;
  readonly #graceMs: number;
  #ticket = 0;
  /** The tickets that nodes gave, of which one becomes that of this process. */
  readonly #tickets = new Map<NodeSession, number>();
  /** When it is worth asking again, by node; each round of questions has a map of its own. */
  #freeInMs = new Map<NodeSession, number>();
  /** The nodes that keep the key for this process. */
  readonly #keptBy = new Set<NodeSession>();

  constructor(nodes: NodeSet, key: QueuedKey) {
    super();
    this.#nodes = nodes;
    this.#key = key;
    let graceMs = key.isForSet ? GRACE_OF_SET_MS : LEAST_GRACE_MS;
    // The grace grows in few steps: a node looks through its whole queue where the text is another one than before.
    while (graceMs < 4 * nodes.quorum.roundTripMs + 5) graceMs *= 2;
    this.#graceMs = graceMs;
    const names = new NodeNames(nodes.options.keyPrefix, [key.key]);
    const member = `${nodes.mark} ${graceMs} ${nodes.channel}`;
    this.#request = { names, member, lifeMs: QUEUE_LIFE_MS };
  }

  /** Says that nodes keep the key for this process, and that it should try now. */
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
    const request = { ...this.#request, ticket: this.#ticket };
    session.wait(request, (reply) => this.#answered(round, session, reply));
    this.#nodes.outgoing.flushLater();
  }

  /** Notes that this node keeps the key for this process. */
  turn(session: NodeSession): void {
    const { options, quorum, alarms, clock } = this.#nodes;
    const isFirst = this.#keptBy.size === 0;
    this.#keptBy.add(session);
    if (this.#state !== 'called') this.#state = 'named';
    if (this.#keptBy.size >= options.quorum) this.#call(true);
    else if (isFirst) alarms.set(this, Math.max(1, Math.ceil(quorum.roundTripMs)), clock.nowMs);
  }

  /** Looks again when the turn of the process before it is over, for which the key is kept for so long. */
  standBy(keptMs: number): void {
    if (this.#keptBy.size === 0) this.#lookIn(keptMs);
  }

  onDeadline(): void {
    const isCalled = this.#state === 'named' || this.#state === 'asking';
    if (isCalled && this.#call(this.#state === 'named')) return;
    if (this.hasTurn) {
      // The callers that did not try go behind the others, or a set would keep a key until its other keys are free.
      this.#ticket = 0;
      this.#tickets.clear();
    }
    this.stand(this.#nodes.clock.nowMs);
  }

  /** Ends a round, also when a try begins: later answers count no more. */
  end(): void {
    this.#nodes.alarms.cancel(this);
    this.#freeInMs = new Map();
  }

  #answered(round: Map<NodeSession, number>, session: NodeSession, reply: WaitReply): void {
    if (reply.kind === 'failed') return;
    if (!this.#tickets.has(session)) this.#tickets.set(session, reply.ticket);
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
    // Leases in answers may be votes that are given back: no evidence of a holder, but a reason not to ask before.
    if (foreign !== undefined)
      this.#key.foreign = { ...foreign, untilMs: clock.nowMs + freeInMs + slackMs };
    if (freeInMs < POLL_MS) this.#lookIn(freeInMs);
  }

  /**
   * Looks again when that time is over, unless it does before: an answer may be older than the turn that it heard of. Sets ask
   * apart: two that have each other's key would change places at the same moment again and again. With a random pause of up to
   * four round trips, one of them has both turns for a round trip at every second change.
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
   * Calls the head of the line: the key is kept for this process, or, not `isKept`, free for anyone. Returns whether it was called:
   * where no holder was found, back-off keeps callers apart, since votes were split or the number was wrong.
   */
  #call(isKept: boolean): boolean {
    if (this.#state === 'called' || (!isKept && this.#key.foreign === undefined)) return false;
    this.#state = 'called';
    const { alarms, clock } = this.#nodes;
    const { nowMs } = clock;
    // Processes that can't try by then have lost their turn.
    alarms.set(this, this.#graceMs, nowMs);
    this.#key.mayBeFree(nowMs, nowMs + (isKept ? 0 : jitterMs(this.#nodes)));
    return true;
  }
}
