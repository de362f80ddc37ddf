import { FencedUsageError, LockBusyError, quoteKeys } from '../errors.ts';
import type { KeyLock } from '../holding/key-lock.ts';
import { askAll } from '../nodes/inspect.ts';
import type { RevokeReply, VoteReply } from '../nodes/lock-node.ts';
import { channelOf, markOf, NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { replacedHolder, replacedValue, revokedText } from '../process-identity.ts';
import { microtask, type FailedAttempt } from '../voting/attempt.ts';
import type { Floors } from '../voting/floors.ts';
import { cancel, type Call } from './call.ts';
import type { KeyRecord } from './keys.ts';
import { POLL_MS } from './queue-place.ts';

/** A number that did not fit is mended once before the next look. */
const MOST_BIDS = 2;

/** The numbers of calls are multiples of this. Those in between are for a call whose votes came too late: each try spends one. */
const NUMBERS_OF_A_CALL = 16;

/** Above the ballot, and so far that its floor, one below it, is above all numbers of the call that the ballot is of. */
function numberAbove(ballot: number): number {
  return (Math.floor(ballot / NUMBERS_OF_A_CALL) + 1) * NUMBERS_OF_A_CALL;
}

interface SharedByReplacements {
  readonly nodes: NodeSet;
  readonly floors: Floors;
}

/**
 * A call with `onBusy: 'replace'` among those that want its key. The newest wins: that with the highest number, which is the one
 * ballot of all its tries. It is drawn above every floor that nodes know, and becomes the floor of the nodes whose holder it
 * replaces. So older calls are refused from then on, and a call that begins later has a higher number, whatever the clocks say.
 */
export class Replacement {
  number: number | undefined = undefined;
  /** The key is looked at again by then, whatever was said of its holder. */
  lookAtMs = Number.NEGATIVE_INFINITY;
  readonly #nodes: NodeSet;
  readonly #floors: Floors;
  readonly #call: Call;
  readonly #record: KeyRecord;
  #arrivedAtMs = 0;
  #isFixed = false;
  #isBidding = false;
  /** The holder elsewhere whose `minHold` it waits for, and since when. */
  #seen: { readonly holder: string; readonly sinceMs: number } | undefined;

  constructor({ nodes, floors }: SharedByReplacements, call: Call, record: KeyRecord) {
    this.#nodes = nodes;
    this.#floors = floors;
    this.#call = call;
    this.#record = record;
  }

  /** Ends the older ones of this process that wait. */
  arrived(nowMs: number): void {
    this.#arrivedAtMs = nowMs;
    const { line, trying } = this.#record;
    for (const waiter of [...(line?.waiters ?? []), ...(trying ? [trying] : [])])
      if (waiter.call.settings.replaces) this.#overtake(waiter.call, nowMs);
  }

  /** Replaces a holder of this process, and returns when to look again. */
  replace(lock: KeyLock, nowMs: number): number {
    const mayAtMs = lock.grant.startedAtMs + lock.call.settings.minHoldMs;
    if (nowMs < mayAtMs) return mayAtMs;
    // Nobody could begin in its place.
    if (this.#nodes.quorum.isMissing) return nowMs + POLL_MS;
    // The lock is in nobody's hands yet: it was granted in this moment, or waits for its token.
    if (lock.report === undefined) this.#overtake(lock.call as Call, nowMs);
    // The listeners of the holder must not run in the middle of a look.
    else void microtask.then(() => lock.isEnding || lock.lost('replaced', []));
    void this.#bid(lock.grant.holder);
    return nowMs + POLL_MS;
  }

  /** Learns from a try that failed, and takes the key from its holder. */
  tried({ votes, endedAtMs }: FailedAttempt, ballot: number): void {
    this.lookAtMs = endedAtMs + POLL_MS;
    const { replies, quorum, namedHolder } = votes;
    const isOutnumbered = votes.yes + votes.wrongNumber >= quorum;
    this.sighted(votes);
    if (this.#isOld(replies.flatMap(floorOf), isOutnumbered ? 1 : replies.length - quorum + 1))
      return;
    if (isOutnumbered && !this.#renumber(votes, ballot)) return;
    if (votes.voted < quorum) return;
    if (namedHolder === undefined || namedHolder.holder.startsWith('#')) return;
    const { holder } = namedHolder;
    const isHeld = revokedText(holder) === undefined;
    const leftMs = isHeld ? this.#minHoldLeftMs(holder, replies, endedAtMs) : 0;
    if (leftMs > 0) this.lookAtMs = endedAtMs + Math.min(leftMs, POLL_MS);
    else void this.#bid(holder);
  }

  /**
   * Takes the next number where no server accepts the present one again. When a quorum has accepted that one, too late for its try, the
   * next is still below the number of every newer call. Returns false where it has none left, and so can't tell whether it is the newest.
   */
  #renumber(votes: FailedAttempt['votes'], ballot: number): boolean {
    const isSpent = votes.wrongNumber === 0;
    this.number = isSpent ? ballot + 1 : numberAbove(votes.nextBallot(ballot));
    const isOver = isSpent && this.number % NUMBERS_OF_A_CALL === 0;
    if (isOver) this.#overtake(this.#call, this.#nodes.clock.nowMs);
    return !isOver;
  }

  /**
   * How much of the `minHold` of a holder elsewhere is left: by its number, which is the time at which it came; but where its clock is
   * ahead, this call has seen it for long enough at some time.
   */
  #minHoldLeftMs(
    holder: string,
    replies: readonly (VoteReply | undefined)[],
    nowMs: number,
  ): number {
    const { minHoldMs } = this.#call.settings;
    if (minHoldMs === 0) return 0;
    if (this.#seen?.holder !== holder) this.#seen = { holder, sinceMs: nowMs };
    const numbers = replies.flatMap((reply) =>
      reply?.kind === 'held' && reply.holder === holder ? reply.floor : [],
    );
    const byClockMs = (this.#nodes.environment.clock.wallMicros() - Math.min(...numbers)) / 1_000;
    return minHoldMs - Math.max(byClockMs, nowMs - this.#seen.sinceMs);
  }

  /** A quorum said which floors it knows: the number that is drawn now stays. */
  sighted({ voted, quorum }: FailedAttempt['votes']): void {
    if (this.#isFixed || voted < quorum) return;
    this.number = undefined;
    this.draw();
    this.#isFixed = true;
  }

  /** Draws its number, above all floors that were seen. */
  draw(): number {
    return (this.number ??= numberAbove(this.#floors.nextBallot(this.#call.keys)));
  }

  /** Takes the key from its holder on all nodes, or tells it once more: the lock stays taken until it is given back, or ends. */
  async #bid(holder: string): Promise<void> {
    if (this.#isBidding) return;
    this.#isBidding = true;
    for (let bids = 0; bids < MOST_BIDS; bids += 1) {
      const floor = this.draw() - 1;
      const isRepeat = this.#isFixed;
      const replies = await this.#ask(replacedHolder(holder) ?? holder, floor);
      if (this.#call.stage === undefined) break;
      // A try has given it another number meanwhile, of which these replies say nothing.
      if (this.number !== floor + 1) continue;
      const isTaken = (reply: RevokeReply): boolean =>
        reply.kind === 'outnumbered'
          ? isRepeat && reply.limit === floor
          : reply.kind === 'revoked' && reply.remainingMs !== null;
      const taken = replies.filter(isTaken).length;
      const limits = replies.flatMap((reply) => (reply.kind === 'outnumbered' ? reply.limit : []));
      const { quorum } = this.#nodes.options;
      if (taken >= quorum || taken + limits.length < quorum || this.#isOld(limits, 1)) break;
      this.number = numberAbove(Math.max(...limits) + 1);
      this.#isFixed = true;
    }
    this.#isBidding = false;
  }

  #ask(holder: string, floor: number): Promise<RevokeReply[]> {
    const { keyPrefix } = this.#nodes.options;
    const names = new NodeNames(keyPrefix, this.#call.keys);
    const value = revokedText(holder) === undefined ? replacedValue(holder) : holder;
    const channel = channelOf(keyPrefix, markOf(holder));
    // The floor keeps the holder from having the lock again where a node lost it.
    const request = { names, holder, value, leastMs: 0, channel, floor };
    let taken = 0;
    return askAll<RevokeReply>(this.#nodes, (node, settle) =>
      node.revoke(request, (reply) => {
        // A quorum knows the number: it stays, however long the others take to answer.
        if (reply.kind === 'revoked' && reply.remainingMs !== null) taken += 1;
        this.#isFixed ||= taken === this.#nodes.options.quorum && this.number === floor + 1;
        settle(reply);
      }),
    );
  }

  /** Ends this call where so many nodes know a newer one that it can't be granted any more. */
  #isOld(floors: readonly number[], enough: number): boolean {
    const { number = Number.POSITIVE_INFINITY } = this;
    const isOld = this.#isFixed && floors.filter((floor) => floor >= number).length >= enough;
    if (isOld) this.#overtake(this.#call, this.#nodes.clock.nowMs);
    return isOld;
  }

  #overtake(call: Call, nowMs: number): void {
    const waitedMs = nowMs - (call.stage?.arrivedAtMs ?? this.#arrivedAtMs);
    cancel(
      call,
      new LockBusyError(call.keys, waitedMs, undefined, [], false, undefined, undefined, true),
    );
  }
}

/** The floor that a node remembers. */
function floorOf(reply: VoteReply | undefined): number | [] {
  return reply?.kind === 'held' || reply?.kind === 'stale' ? reply.floor : [];
}

export function replacesOne(keys: readonly string[]): FencedUsageError {
  return new FencedUsageError(
    `onBusy: 'replace' takes one key, and this call has several: ${quoteKeys(keys)}. Their holders could be replaced on some of them only. Nothing was locked.`,
    keys,
  );
}
