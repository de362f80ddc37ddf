import type { Chance } from '../world/chance.ts';
import type { World } from '../world/world.ts';

/** The way between one client process and one server, in both directions, with its faults. */
export class NetworkPath {
  /** Average time of one way. */
  latencyMs: number;
  /** Time until which something may have been wrong. */
  #troubledUntilMs = 0;
  /** Refuses every new connection. */
  refused = false;
  /** Share of replies that arrive as nonsense. */
  garbledReplies = 0;
  /** Share of hints that are lost. */
  lostHints = 0;
  /** Share of messages that take much longer. */
  slowMessages = 0.02;
  readonly #world: World;
  readonly #chance: Chance;
  readonly #usualMs: number;
  #requestHolds = 0;
  #replyHolds = 0;
  readonly #heldRequests: (() => void)[] = [];
  readonly #heldReplies: (() => void)[] = [];

  constructor(world: World, chance: Chance, latencyMs: number) {
    this.#world = world;
    this.#chance = chance;
    this.#usualMs = latencyMs;
    this.latencyMs = latencyMs;
  }

  get isHeld(): boolean {
    return this.#requestHolds > 0 || this.#replyHolds > 0;
  }

  /** Since when everything has passed quickly; Infinity when it doesn't. */
  get wellSinceMs(): number {
    const isWell = !this.isHeld && !this.refused && this.latencyMs === this.#usualMs;
    return isWell && this.garbledReplies === 0 ? this.#troubledUntilMs : Infinity;
  }

  /** When everything that was slow on its way has arrived. */
  get arrivedAtMs(): number {
    return this.#troubledUntilMs;
  }

  /** Notes that something is wrong, or was until now. */
  troubled(forMs = 0): void {
    this.#troubledUntilMs = Math.max(this.#troubledUntilMs, this.#world.nowMs + forMs);
  }

  /** Time of one way for one message that leaves at `leavesMs`: a stalled process is ahead of the world. */
  delayMs(leavesMs = this.#world.nowMs): number {
    const isSlow = this.#chance.happens(this.slowMessages);
    const delayMs = this.latencyMs * (0.4 + 1.2 * this.#chance.fraction()) * (isSlow ? 8 : 1);
    // Messages after it wait for it.
    if (isSlow || this.latencyMs !== this.#usualMs)
      this.troubled(leavesMs + delayMs - this.#world.nowMs);
    return delayMs;
  }

  /** Nothing passes in this direction; what comes waits, in order, until every hold has ended. */
  hold(direction: 'requests' | 'replies'): void {
    if (direction === 'requests') this.#requestHolds += 1;
    else this.#replyHolds += 1;
  }

  pass(direction: 'requests' | 'replies'): void {
    if (direction === 'requests') this.#requestHolds -= 1;
    else this.#replyHolds -= 1;
    this.troubled();
    if (this.#requestHolds === 0) for (const arrive of this.#heldRequests.splice(0)) arrive();
    if (this.#replyHolds === 0) for (const arrive of this.#heldReplies.splice(0)) arrive();
  }

  passRequest(arrive: () => void): void {
    if (this.#requestHolds > 0) this.#heldRequests.push(arrive);
    else arrive();
  }

  passReply(arrive: () => void): void {
    if (this.#replyHolds > 0) this.#heldReplies.push(arrive);
    else arrive();
  }
}
