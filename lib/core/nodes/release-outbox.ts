import type { Environment, TimerHandle } from '../environment.ts';
import type { LockNode, NodeFailure, ReleaseRequest } from './lock-node.ts';

/** Receives what became of a release: why it was not delivered, or how many connections received the hint. */
export type ReleaseSettle = (failure: NodeFailure | undefined, listeners: number) => void;

/** Releases that are kept for one node; beyond it the oldest is dropped and its key dies with its ttl. */
const MAX_ENTRIES = 10_000;

interface Entry {
  readonly request: ReleaseRequest;
  /** Monotonic; then every key of this lock has expired. */
  readonly expiresAtMs: number;
}

/**
 * Delivers releases to one node: those that could not be sent or got no answer are repeated on the next connection and
 * after every node timeout, until all keys they concern have expired.
 *
 * A release that goes over another connection than its acquire can be overtaken by it; so after a connection that closed
 * with answers open, every release is sent once more a node timeout later (protocol: "No tombstones").
 */
export class ReleaseOutbox {
  readonly #node: LockNode;
  readonly #environment: Environment;
  readonly #pauseMs: number;
  readonly #onSent: () => void;
  readonly #entries = new Map<string, Entry>();
  #timer: TimerHandle;
  /** Of releases that were delivered, and are delivered once more. */
  readonly #repeats = new Set<TimerHandle>();
  #repeatUntilMs = 0;
  #closed = false;

  /** `onSent` is called after releases were given to the node outside of `send`. */
  constructor(node: LockNode, environment: Environment, pauseMs: number, onSent: () => void) {
    this.#node = node;
    this.#onSent = onSent;
    this.#environment = environment;
    this.#pauseMs = pauseMs;
  }

  /** Sends on the present connection; `settle` receives a failure, and then it is repeated. */
  send(request: ReleaseRequest, lifeMs: number, settle: ReleaseSettle): void {
    const repeat = this.#repeatUntilMs !== 0 && this.#repeatUntilMs > this.#now();
    const expiresAtMs = this.#now() + lifeMs;
    this.#node.release(request, (reply) => {
      if (reply.kind === 'failed') this.#keep({ request, expiresAtMs });
      else if (repeat) this.#again({ request, expiresAtMs });
      if (reply.kind === 'failed') settle(reply, 0);
      else settle(undefined, reply.listeners ?? 0);
    });
  }

  /** Keeps a release for later. */
  add(request: ReleaseRequest, lifeMs: number): void {
    this.#keep({ request, expiresAtMs: this.#now() + lifeMs });
  }

  #keep(entry: Entry): void {
    if (this.#closed || entry.expiresAtMs <= this.#now()) return;
    this.#entries.set(entry.request.holder, entry);
    if (this.#entries.size > MAX_ENTRIES) {
      for (const oldest of this.#entries.keys()) {
        this.#entries.delete(oldest);
        break;
      }
    }
    this.#schedule();
  }

  /** Sends everything that is kept: there is a new connection. */
  flush(): void {
    const now = this.#now();
    const entries = Array.from(this.#entries.values());
    this.#entries.clear();
    for (const entry of entries) {
      if (entry.expiresAtMs <= now) continue;
      this.send(entry.request, entry.expiresAtMs - now, () => undefined);
    }
    if (entries.length > 0) this.#onSent();
  }

  /** `unknownForMs`: how long keys of commands without an answer can live; 0 when there were none. */
  connectionClosed(unknownForMs: number): void {
    if (unknownForMs > 0) this.#repeatUntilMs = this.#now() + unknownForMs;
  }

  close(): void {
    this.#closed = true;
    this.#entries.clear();
    this.#environment.timers.clear(this.#timer);
    for (const repeat of this.#repeats) this.#environment.timers.clear(repeat);
    this.#repeats.clear();
  }

  #again(entry: Entry): void {
    if (this.#closed) return;
    const timer = this.#environment.timers.set(
      () => {
        this.#repeats.delete(timer);
        this.#node.release(entry.request, (reply) => {
          if (reply.kind === 'failed') this.#keep(entry);
        });
        this.#onSent();
      },
      this.#pauseMs,
      true,
    );
    this.#repeats.add(timer);
  }

  #schedule(): void {
    if (this.#timer !== undefined) return;
    this.#timer = this.#environment.timers.set(
      () => {
        this.#timer = undefined;
        this.flush();
        if (this.#entries.size > 0) this.#schedule();
      },
      this.#pauseMs,
      true,
    );
  }

  #now(): number {
    return this.#environment.clock.monotonicMs();
  }
}
