import { Deadline } from '../nodes/deadlines.ts';
import type { LockLossReason, NodeCause } from '../errors.ts';
import { extendOnce } from '../voting/extension.ts';
import type { ExtensionOutcome, ExtensionTarget, OpenExtension } from '../voting/extension.ts';
import type { Quorum } from '../nodes/node-set.ts';

/** Who owns a lease. */
export interface LeaseOwner extends ExtensionTarget {
  lost(reason: LockLossReason, causes: readonly NodeCause[]): void;
  extended(remainingMs: number): void;
  extensionFailed(remainingMs: number, causes: readonly NodeCause[]): void;
}

/**
 * Keeps the validity of one held lock: extends it at a third of the ttl, and calls `lost` before it ends.
 *
 * The deadline is local and monotonic, whatever the nodes do or don't answer. An extension without a quorum is unknown,
 * neither lost nor renewed: the old validity stands, and it is tried again, paced, while time is left.
 */
export class Lease extends Deadline {
  /** Monotonic. */
  validUntilMs: number;
  readonly #quorum: Quorum;
  readonly #owner: LeaseOwner;
  #nextExtensionMs = Number.POSITIVE_INFINITY;
  #keeps = false;
  #ended = false;
  /** Extensions that are being asked for; made at the first one, because most locks end before it. */
  #open: Set<OpenExtension> | undefined;

  constructor(quorum: Quorum, owner: LeaseOwner, validUntilMs: number) {
    super();
    this.#quorum = quorum;
    this.#owner = owner;
    this.validUntilMs = validUntilMs;
  }

  get remainingMs(): number {
    return this.#ended ? 0 : Math.max(0, this.validUntilMs - this.#quorum.nowMs);
  }

  /** From now on tells of the loss when validity ends. */
  watch(): void {
    this.#arm();
  }

  /** As `watch`, and from now on extends by itself; first at a third of the ttl after `startedAtMs`. */
  keepExtended(startedAtMs: number): void {
    this.#keeps = true;
    this.#nextExtensionMs = startedAtMs + this.#owner.ttlMs / 3;
    this.#arm();
  }

  /** Lets the validity run out; it can still be lost. */
  stopExtending(): void {
    this.#nextExtensionMs = Number.POSITIVE_INFINITY;
    this.#keeps = false;
  }

  /** One extension now, outside the rhythm. */
  async extendNow(): Promise<ExtensionOutcome> {
    const outcome = await extendOnce(this.#quorum, this.#owner, (this.#open ??= new Set()));
    this.#apply(outcome);
    return outcome;
  }

  /** Nothing happens any more: no extension, no loss. */
  end(): void {
    this.#ended = true;
    this.#quorum.alarms.cancel(this);
    // A node that has to be joined again would be asked once more, after the release.
    for (const extension of this.#open ?? []) extension.cancel();
  }

  #arm(): void {
    if (this.#ended) return;
    const now = this.#quorum.nowMs;
    const delayMs = Math.min(this.#nextExtensionMs, this.validUntilMs - this.#leadMs()) - now;
    // Few different delays, so that thousands of locks share a timer; what comes early looks again.
    const stepMs = delayMs > 2 * this.#stepMs() ? this.#stepMs() : 1;
    this.#quorum.alarms.set(this, Math.max(1, Math.floor(delayMs / stepMs) * stepMs), now);
  }

  #stepMs(): number {
    return Math.max(1, Math.floor(this.#owner.ttlMs / 64));
  }

  /** The holder is told this much before validity ends, because timers are late and work needs time to stop. */
  #leadMs(): number {
    return Math.max(4, this.#owner.ttlMs / 200);
  }

  onDeadline(): void {
    if (this.#ended) return;
    const now = this.#quorum.nowMs;
    if (now >= this.validUntilMs - this.#leadMs()) {
      this.#owner.lost('expired', []);
      return;
    }
    if (now >= this.#nextExtensionMs - this.#stepMs()) {
      this.#nextExtensionMs = Number.POSITIVE_INFINITY;
      void this.#extendInRhythm();
    }
    this.#arm();
  }

  async #extendInRhythm(): Promise<void> {
    const { ttlMs, nodeTimeoutMs } = this.#owner;
    const startedAtMs = this.#quorum.nowMs;
    const outcome = await extendOnce(this.#quorum, this.#owner, (this.#open ??= new Set()));
    if (!this.#keeps || this.#ended) return;
    const now = this.#quorum.nowMs;
    if (outcome.kind === 'extended') this.#nextExtensionMs = startedAtMs + ttlMs / 3;
    else
      this.#nextExtensionMs =
        now + (nodeTimeoutMs / 2) * (1 + this.#quorum.environment.random.fraction());
    if (outcome.quarantineMs !== undefined) {
      this.#nextExtensionMs = Math.min(
        this.#nextExtensionMs,
        now + Math.max(1, outcome.quarantineMs),
      );
    }
    this.#apply(outcome);
    this.#arm();
  }

  #apply(outcome: ExtensionOutcome): void {
    if (this.#ended) return;
    const now = this.#quorum.nowMs;
    // A late answer never brings a validity back that has ended.
    if (now >= this.validUntilMs) this.#owner.lost('expired', outcome.causes());
    else if (outcome.kind === 'taken') this.#owner.lost('taken', outcome.causes());
    else if (outcome.kind === 'extended') {
      this.validUntilMs = Math.max(this.validUntilMs, outcome.validUntilMs);
      this.#owner.extended(this.validUntilMs - now);
    } else this.#owner.extensionFailed(this.validUntilMs - now, outcome.causes());
  }
}
