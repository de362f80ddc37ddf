import { Deadline } from '../deadlines.ts';
import type { Service } from './service.ts';

/** With so many votes unanswered, a silent node is only sent releases. */
export const MAX_OPEN_VOTES = 64;

/**
 * One connection to a node: the votes on it that have no answer, and whether the node is silent. A server that is frozen for an
 * hour costs the first calls a node timeout. From then on it is silent: it is still asked, but no decision waits for it, until it
 * has answered everything that was due.
 */
export class Connection extends Deadline {
  /** A whole node timeout passed without an answer that was due. */
  isSilent = false;
  /** The name of the server that was joined. */
  server = '';
  readonly #service: Service;
  readonly #onSilence: (sinceMs: number) => void;
  /** When the votes were sent that have not been answered; answers come in order. */
  readonly #sentAtMs: number[] = [];

  constructor(service: Service, onSilence: (sinceMs: number) => void) {
    super();
    this.#service = service;
    this.#onSilence = onSilence;
  }

  /** When the vote was sent that has been unanswered for longest. */
  get askedAtMs(): number | undefined {
    return this.#sentAtMs[0];
  }

  get isOverloaded(): boolean {
    return this.isSilent && this.#sentAtMs.length >= MAX_OPEN_VOTES;
  }

  sent(nowMs: number): void {
    if (this.#sentAtMs.push(nowMs) === 1 && !this.isSet)
      this.#service.answers.set(this, this.#timeoutMs, nowMs);
  }

  /** Call when the votes that were asked since `sinceMs` have left: the time of their answers runs from now. */
  left(sinceMs: number, nowMs: number): void {
    const first = this.#sentAtMs.findIndex((atMs) => atMs >= sinceMs);
    if (first !== -1) this.#sentAtMs.fill(nowMs, first);
  }

  /** Returns how long the answer took that has come; undefined where it came too late to count in its vote. */
  answered(nowMs: number): number | undefined {
    const tookMs = nowMs - (this.#sentAtMs.shift() ?? nowMs);
    const isLate = this.isSilent && tookMs > this.#timeoutMs;
    this.isSilent &&= nowMs - (this.askedAtMs ?? nowMs) > this.#timeoutMs;
    return isLate ? undefined : tookMs;
  }

  /** Finds out whether an answer is overdue, before the deadline does. */
  checkSilence(): void {
    if (!this.isSilent) this.onDeadline();
  }

  /** Answers have been due for a node timeout in which this process read its sockets. */
  onDeadline(): void {
    const sinceMs = this.askedAtMs;
    if (sinceMs === undefined) return;
    const { clock, answers } = this.#service;
    const { nowMs } = clock;
    const dueInMs = Math.ceil(sinceMs + this.#timeoutMs - nowMs);
    answers.set(this, dueInMs > 0 ? dueInMs : this.#timeoutMs, nowMs);
    if (dueInMs > 0) return;
    this.isSilent = true;
    this.#onSilence(sinceMs);
  }

  get #timeoutMs(): number {
    return this.#service.options.acquire.nodeTimeoutMs;
  }
}
