import type { NodeCause } from '../errors.ts';
import { Deadline } from '../nodes/deadlines.ts';
import type { WaitReply, WaitRequest } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';

/** Stands in line again after so long, whatever was said: those in front may have stopped, and no key is idle for half a second. */
export const POLL_MS = 400;
/** Nodes forget a queue in which nobody stood for so long. */
const QUEUE_LIFE_MS = 10_000;
/** Least time for which a free lock is kept for this process, and that for a caller that waits for several keys at once. */
const LEAST_GRACE_MS = 10;
export const GRACE_OF_SET_MS = 40;

/** Head that was not called tries so late after the end of a lease, and a few round trips. */
const LEAST_SLACK_MS = 10;

/** Limits the jitter after a moment that several processes wait for. */
const MAX_JITTER_MS = 40;

/** Keeps processes apart that wait for the same moment. */
export function jitterMs(roundTripMs: number, random: number): number {
  return random * Math.min(roundTripMs, MAX_JITTER_MS);
}

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
  readonly #nodes: NodeSet;
  readonly #request: Omit<WaitRequest, 'ticket'>;
  readonly #graceMs: number;
  readonly #record: QueuedKey;
  #ticket = 0;
  /** The answers by node: of the ticket at first, and of the lease in the latest round. */
  readonly #tickets: number[] = [];
  #freeInMs: number[] = [];
  #round = 0;
  /** The nodes that keep the key for this process, as bits. */
  #kept = 0;
  /** Says that this process has its turn, and should have tried since. */
  #isCalled = false;

  constructor(nodes: NodeSet, record: QueuedKey) {
    super();
    this.#nodes = nodes;
    this.#record = record;
    let graceMs = record.isForSet ? GRACE_OF_SET_MS : LEAST_GRACE_MS;
    // The grace grows in few steps: a node looks through its whole queue where the text is another one than before.
    while (graceMs < 4 * nodes.quorum.roundTripMs + 5) graceMs *= 2;
    this.#graceMs = graceMs;
    const names = new NodeNames(nodes.options.keyPrefix, [record.key]);
    const member = `${nodes.mark} ${graceMs} ${nodes.channel}`;
    this.#request = { names, member, lifeMs: QUEUE_LIFE_MS };
  }

  /** Says that nodes keep the key for this process, and that it should try now. */
  get hasTurn(): boolean {
    return this.#isCalled && this.#kept !== 0;
  }

  /** Takes its place at all nodes, or says that it still stands there. */
  stand(nowMs: number): void {
    const { sessions, alarms } = this.#nodes;
    this.#round += 1;
    this.#kept = 0;
    this.#isCalled = false;
    this.#freeInMs = [];
    for (const session of sessions) this.standAt(session);
    alarms.set(this, POLL_MS, nowMs);
  }

  standAt(session: NodeSession): void {
    const round = this.#round;
    this.#ticket ||= this.#atQuorum(this.#tickets) ?? 0;
    const request = { ...this.#request, ticket: this.#ticket };
    session.wait(request, (reply) => this.#answered(round, session, reply));
    this.#nodes.outgoing.flushLater();
  }

  /** Notes that this node keeps the key for this process. */
  turn({ index }: NodeSession): void {
    const { options, quorum, alarms, clock } = this.#nodes;
    const isFirst = this.#kept === 0;
    this.#kept |= 1 << index;
    if (countOf(this.#kept) >= options.quorum) this.#call(true);
    // The word of the others takes no longer, if they have any.
    else if (isFirst) alarms.set(this, Math.max(1, Math.ceil(quorum.roundTripMs)), clock.nowMs);
  }

  /** Looks again when the turn of the process before it is over, for which the key is kept for so long. */
  standBy(keptMs: number): void {
    if (this.#kept === 0) this.#lookIn(keptMs);
  }

  /**
   * Sets ask apart: two that have each other's key would change places at the same moment again and again. With a random pause
   * of up to four round trips, one of them has both turns for a round trip at every second change.
   */
  get #afterTurnMs(): number {
    const { quorum, environment } = this.#nodes;
    if (!this.#record.isForSet) return 1;
    return 1 + jitterMs(4 * quorum.roundTripMs, environment.random.fraction());
  }

  onDeadline(): void {
    if (this.#kept !== 0 && !this.#isCalled) return this.#call(true);
    // Callers ask by themselves where no quorum gave this process a place.
    if (!this.#isCalled && this.#atQuorum(this.#freeInMs) === undefined) {
      this.#call(false);
      if (this.#isCalled) return;
    }
    // The callers that did not try go behind the others, or a set would keep a key until its other keys are free.
    if (this.hasTurn) this.#ticket = this.#tickets.length = 0;
    this.stand(this.#nodes.clock.nowMs);
  }

  /** Ends a round, also when a try begins: later answers count no more. */
  end(): void {
    this.#nodes.alarms.cancel(this);
    this.#round += 1;
  }

  #answered(round: number, session: NodeSession, reply: WaitReply): void {
    if (reply.kind === 'failed') return;
    this.#tickets[session.index] ??= reply.ticket;
    if (round !== this.#round || this.#isCalled) return;
    const { clock, quorum } = this.#nodes;
    this.#freeInMs[session.index] = Math.max(0, reply.freeInMs);
    if (reply.freeInMs < 0) this.turn(session);
    const freeInMs = this.#atQuorum(this.#freeInMs);
    if (freeInMs === undefined || this.#kept !== 0) return;
    if (freeInMs === 0) return this.#call(false);
    const { foreign } = this.#record;
    const slackMs = 4 * quorum.roundTripMs + LEAST_SLACK_MS;
    // Leases in answers may be votes that are given back: no evidence of a holder, but a reason not to ask before.
    if (foreign !== undefined)
      this.#record.foreign = { ...foreign, untilMs: clock.nowMs + freeInMs + slackMs };
    if (freeInMs < POLL_MS) this.#lookIn(freeInMs);
  }

  /** Looks again when that time is over, unless it does before: an answer may be older than the turn that it heard of. */
  #lookIn(ms: number): void {
    const { alarms, clock } = this.#nodes;
    const pauseMs = ms + this.#afterTurnMs;
    if (this.dueMs > clock.nowMs + pauseMs) alarms.set(this, pauseMs, clock.nowMs);
  }

  /** The least number that a quorum of nodes does not exceed; undefined while fewer have answered. */
  #atQuorum(answers: readonly number[]): number | undefined {
    return answers.filter(() => true).sort((one, other) => one - other)[
      this.#nodes.options.quorum - 1
    ];
  }

  /** Calls the head of the line: the key is kept for this process, or, not `isKept`, free for anyone. */
  #call(isKept: boolean): void {
    // Back-off keeps callers apart where votes were split, or the number was wrong.
    if (this.#isCalled || (!isKept && this.#record.foreign === undefined)) return;
    this.#isCalled = true;
    const { alarms, clock, quorum, environment } = this.#nodes;
    const { nowMs } = clock;
    // Processes that can't try by then have lost their turn.
    alarms.set(this, this.#graceMs, nowMs);
    const apartMs = isKept ? 0 : jitterMs(quorum.roundTripMs, environment.random.fraction());
    this.#record.mayBeFree(nowMs, nowMs + apartMs);
  }
}

export function countOf(bits: number): number {
  let count = 0;
  for (let left = bits; left !== 0; left &= left - 1) count += 1;
  return count;
}
