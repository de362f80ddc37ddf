import { FencedUsageError, type NodeCause } from '../errors.ts';
import { kindOf } from '../options/option-names.ts';
import { Deadline, LATE_MS } from '../deadlines.ts';
import { NodeNames } from '../nodes/node-names.ts';
import { NOT_GRANTED_HERE } from '../nodes/node-session.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { inSeconds } from '../options/duration.ts';
import { replacedValue, revokedText } from '../process-identity.ts';
import { driftMs, validityEndMs, VoteRound } from '../voting/vote-round.ts';
import type { KeyLock } from './key-lock.ts';

/** A lock without `maxHold` is reported after so many ttl. */
const LONG_HOLD_TTLS = 10;

/**
 * Keeps the validity of one held lock: extends it at a third of the ttl, and calls `lost` before it ends.
 *
 * The deadline is local and monotonic, whatever the nodes do or don't answer. An extension without a quorum is unknown,
 * neither lost nor extended: the old validity stands, and it is tried again, paced, while time is left.
 */
export class Lease extends Deadline {
  validUntilMs: number;
  readonly #nodes: NodeSet;
  readonly #lock: KeyLock;
  #nextExtensionMs = Number.POSITIVE_INFINITY;
  #keeps = false;
  /** When `maxHold` is over, if there is one; infinite where nothing more is to be said of how long it is held. */
  #overdueAtMs: number | undefined;
  #ended = false;
  /** The suspends that were known when the validity was computed. */
  #suspendedMs: number;
  /** The holder is notified this much before validity ends, because timers are late and work needs time to stop. */
  readonly #leadMs: number;
  /** All locks of a ttl look at themselves at multiples of this, so that their extensions leave as one message. */
  readonly #stepMs: number;
  /** The last extension, where it failed. */
  #failure: VoteRound | undefined;
  /** The extensions that are being asked for. */
  readonly #open = new Set<VoteRound>();

  constructor(nodes: NodeSet, lock: KeyLock) {
    super();
    this.#nodes = nodes;
    this.#lock = lock;
    this.validUntilMs = lock.grant.validUntilMs;
    this.#suspendedMs = nodes.clock.suspendedMs;
    const { maxHoldMs } = lock.call.settings;
    this.#overdueAtMs = maxHoldMs === undefined ? undefined : lock.grant.startedAtMs + maxHoldMs;
    this.#leadMs = Math.max(4, lock.call.settings.ttlMs / 200);
    this.#stepMs = Math.max(1, Math.floor(lock.call.settings.ttlMs / 64));
  }

  /** @throws FencedUsageError when `ms` is no number of milliseconds, or the lock never has so much validity left */
  checkAsked(ms: unknown): void {
    const { keys, settings } = this.#lock.call;
    const { ttlMs } = settings;
    const mostMs = ttlMs - driftMs(ttlMs, this.#nodes.options.driftFactor);
    if (typeof ms === 'number' && ms >= 0 && ms <= mostMs) return;
    throw new FencedUsageError(
      `ensure takes milliseconds as a number from 0 to ${Math.floor(mostMs)}, not ${typeof ms === 'number' ? ms : kindOf(ms)}: with a ttl of ${inSeconds(ttlMs)} a lock never has more left. The lock is still held.`,
      keys,
    );
  }

  /** Reports from now on the loss when validity ends. @param keeps it extends the lock by itself, too */
  watch(keeps = false): void {
    const { grant, call } = this.#lock;
    this.#keeps = keeps;
    if (keeps) this.#nextExtensionMs = grant.startedAtMs + call.settings.ttlMs / 3;
    this.#arm();
  }

  /** Extends the lock soon, which proves that it is held; ends it where the servers of too few nodes have granted it. */
  proveOrEnd(): void {
    const { sessions, options } = this.#nodes;
    const { startedAtMs } = this.#lock.grant;
    const elsewhere = sessions.filter((each) => each.wasGrantedElsewhere(startedAtMs));
    if (!this.#ended && elsewhere.length > sessions.length - options.quorum) {
      const why = { reason: 'lost', message: NOT_GRANTED_HERE, elapsedMs: 0 } as const;
      const causes = elsewhere.map(({ address }) => ({ address, ...why }));
      return this.#lock.lost('taken', causes);
    }
    if (!this.#keeps || this.#ended || this.#nextExtensionMs === Number.POSITIVE_INFINITY) return;
    const { nowMs } = this.#nodes.clock;
    // Each of many messages would put off an extension that is due already.
    if (this.#nextExtensionMs <= nowMs) return;
    this.#nextExtensionMs = nowMs;
    this.#arm();
  }

  /** Lets the validity run out; it can still be lost. */
  stopExtending(): void {
    this.#nextExtensionMs = this.#overdueAtMs = Number.POSITIVE_INFINITY;
    this.#keeps = false;
    // A node that has to be joined again would be asked once more, after the release.
    for (const extension of this.#open) extension.cancel();
  }

  /** The keys are kept for a time of their own, so nothing is left to watch. */
  stopWatching(): void {
    this.stopExtending();
    this.#nodes.alarms.cancel(this);
  }

  /** Asks all nodes once to extend the lock. Never rejects. */
  async extendNow(): Promise<VoteRound> {
    const { call, grant } = this.#lock;
    const { ttlMs, nodeTimeoutMs } = call.settings;
    const { holder, ballot } = grant;
    const names = new NodeNames(this.#nodes.options.keyPrefix, call.keys);
    const extension = await new Promise<VoteRound>((resolve) => {
      const ended = (round: VoteRound): void => {
        this.#open.delete(round);
        if (round.votes.decideExtension() === 'extended')
          this.#nodes.quorum.measured(round.startedAtMs, round.endedAtMs, ttlMs);
        resolve(round);
      };
      const { validUntilMs } = this;
      const timesMs = { grantedAtMs: grant.startedAtMs, validUntilMs, ttlMs };
      const vote = { kind: 'extend', names, holder, ballot, ...timesMs } as const;
      const asked = new VoteRound(this.#nodes, vote, { ended });
      this.#open.add(asked);
      asked.start(nodeTimeoutMs, this.#nodes.clock.nowMs);
      // The nodes that were sent the extension may hold the lock from now on.
      this.#lock.mayHold |= asked.votes.mayHaveWritten;
    });
    this.#apply(extension);
    return extension;
  }

  /** Nothing happens any more: no extension, no loss. */
  end(): void {
    this.#ended = true;
    this.#nodes.alarms.cancel(this);
    this.stopExtending();
  }

  onDeadline(): void {
    if (this.#ended) return;
    const nowMs = this.#nodes.clock.checkedNowMs;
    if (nowMs >= this.validUntilMs - this.#leadMs) {
      this.validityEnded();
      return;
    }
    if (this.noticeOverdue(nowMs)) return;
    if (nowMs >= this.#nextExtensionMs - this.#stepMs) {
      this.#nextExtensionMs = Number.POSITIVE_INFINITY;
      void this.#extendInRhythm();
      if (this.#overdueAtMs === undefined) this.#noticeLongHold(nowMs);
    }
    this.#arm();
  }

  /** Ends the lock when its `maxHold` is over, and says so; a timer may be late. */
  noticeOverdue(nowMs: number): boolean {
    if (nowMs < (this.#overdueAtMs ?? Number.POSITIVE_INFINITY)) return false;
    this.#lock.lost('overdue', []);
    return true;
  }

  #noticeLongHold(nowMs: number): void {
    const { grant, call, about } = this.#lock;
    const heldMs = nowMs - grant.startedAtMs;
    if (heldMs < LONG_HOLD_TTLS * call.settings.ttlMs) return;
    this.#overdueAtMs = Number.POSITIVE_INFINITY;
    this.#nodes.events.emit({ type: 'held-long', ...about, heldMs });
  }

  /** The validity is over, or so close to its end that the work needs the rest to stop. */
  validityEnded(causes = this.#failure?.causes() ?? []): void {
    const { nowMs, suspendedMs } = this.#nodes.clock;
    const awakeMs = nowMs - (suspendedMs - this.#suspendedMs);
    const wouldBeValid = awakeMs < this.validUntilMs - this.#leadMs;
    if (wouldBeValid) this.#lock.lost('suspended', causes);
    else this.#lock.lost('expired', [...this.#ownFault(nowMs), ...causes]);
  }

  /** How long this process did not run while an extension, or its answers, were due. */
  #ownFault(nowMs: number): NodeCause[] {
    const elapsedMs = Math.floor(nowMs - this.dueMs);
    const toleratedMs =
      this.#failure === undefined ? LATE_MS : this.#lock.call.settings.nodeTimeoutMs;
    if (!this.#keeps || elapsedMs <= toleratedMs) return [];
    const message = `did not run for ${elapsedMs} ms`;
    return [{ address: 'this process', reason: 'timeout', message, elapsedMs }];
  }

  #arm(): void {
    if (this.#ended) return;
    const { nowMs } = this.#nodes.clock;
    const endsAtMs = this.validUntilMs - this.#leadMs;
    const dueMs = Math.min(this.#nextExtensionMs, this.#overdueAtMs ?? endsAtMs, endsAtMs);
    const stepMs = dueMs - nowMs > 2 * this.#stepMs ? this.#stepMs : 1;
    this.#nodes.alarms.set(this, Math.max(1, Math.floor(dueMs / stepMs) * stepMs - nowMs), nowMs);
  }

  async #extendInRhythm(): Promise<void> {
    const { ttlMs, nodeTimeoutMs } = this.#lock.call.settings;
    const startedAtMs = this.#nodes.clock.nowMs;
    const { votes } = await this.extendNow();
    if (!this.#keeps || this.#ended) return;
    const { clock, environment } = this.#nodes;
    const { nowMs } = clock;
    const pauseMs = (nodeTimeoutMs / 2) * (1 + environment.random.fraction());
    const nextMs =
      votes.decideExtension() === 'extended' ? startedAtMs + ttlMs / 3 : nowMs + pauseMs;
    // A node that votes again can have its key again.
    this.#nextExtensionMs = Math.min(nextMs, nowMs + Math.max(1, votes.shortestQuarantineMs));
    this.#arm();
  }

  #apply(round: VoteRound): void {
    if (this.#ended || this.#lock.isEnding) return;
    const { clock, options, events } = this.#nodes;
    const { ttlMs } = this.#lock.call.settings;
    const decision = round.votes.decideExtension();
    const nowMs = clock.checkedNowMs;
    // A late answer never brings a validity back that has ended.
    if (nowMs >= this.validUntilMs) this.validityEnded(round.causes());
    else if (decision === 'taken') {
      const { revoked } = round.votes;
      if (revoked === replacedValue(this.#lock.grant.holder)) this.#lock.lost('replaced', []);
      else if (revoked === undefined) this.#lock.lost('taken', round.causes());
      else this.#lock.lost('revoked', round.causes(), revokedText(revoked));
    } else if (decision === 'extended') {
      const newMs = validityEndMs(round.startedAtMs, ttlMs, options.driftFactor);
      this.validUntilMs = Math.max(this.validUntilMs, newMs);
      this.#suspendedMs = clock.suspendedMs;
      this.#failure = undefined;
      const remainingMs = this.validUntilMs - nowMs;
      if (events.takesOrdinary) events.emit({ type: 'extended', ...this.#lock.about, remainingMs });
    } else {
      this.#failure = round;
      const [remainingMs, causes] = [this.validUntilMs - nowMs, round.causes()];
      events.emit({ type: 'extension-failed', ...this.#lock.about, remainingMs, causes });
    }
  }
}
