import { Alarm } from '../deadlines.ts';
import type { LockNode, ReleaseReply, ReleaseRequest } from './lock-node.ts';
import type { Service } from './service.ts';

/** The releases that are kept for one node; beyond it the oldest is dropped and its key expires with its ttl. */
const MAX_ENTRIES = 10_000;

/**
 * Sees to it that releases reach one node: those that could not be sent or got no answer are repeated on the next connection
 * and after every node timeout, until all keys they concern have expired.
 *
 * A release that goes over another connection than its acquire can be overtaken by it; so after a connection that closed
 * with answers open, every release is sent once more a node timeout later (protocol: "No replay").
 */
export class ReleaseOutbox {
  readonly #node: LockNode;
  readonly #service: Service;
  readonly #pauseMs: number;
  /** The releases by holder: the request, and when every key of this lock has expired. */
  readonly #kept = new Map<string, { request: ReleaseRequest; untilMs: number }>();
  /** The alarms of releases that were delivered, and are delivered once more. */
  readonly #repeats = new Set<Alarm>();
  readonly #alarm = new Alarm(() => this.flush());
  /** Time until which every release is sent twice; 0 when there is no need. */
  repeatUntilMs = 0;
  #closed = false;

  constructor(node: LockNode, service: Service) {
    this.#node = node;
    this.#service = service;
    this.#pauseMs = service.options.acquire.nodeTimeoutMs;
  }

  /** Notes what became of a release of a lock whose keys have expired at `untilMs`. */
  answered(request: ReleaseRequest, untilMs: number, reply: ReleaseReply): void {
    if (reply.kind === 'failed') this.keep(request, untilMs);
    else if (Math.min(this.repeatUntilMs, untilMs) > this.#service.clock.nowMs)
      this.#repeat(request, untilMs);
  }

  keep(request: ReleaseRequest, untilMs: number): void {
    const { clock, alarms } = this.#service;
    const { nowMs } = clock;
    if (this.#closed || untilMs <= nowMs) return;
    this.#kept.set(request.holder, { request, untilMs });
    if (this.#kept.size > MAX_ENTRIES) {
      const [oldest = ''] = this.#kept.keys();
      this.#kept.delete(oldest);
    }
    if (this.#alarm.position === -1) alarms.set(this.#alarm, this.#pauseMs, nowMs);
  }

  flush(): void {
    const { nowMs } = this.#service.clock;
    const entries = [...this.#kept.values()];
    this.#kept.clear();
    for (const { request, untilMs } of entries) {
      if (untilMs <= nowMs) continue;
      this.#node.release(request, (reply) => this.answered(request, untilMs, reply));
    }
    if (entries.length > 0) this.#service.outgoing.flushLater();
  }

  close(): void {
    this.#closed = true;
    this.#kept.clear();
    for (const alarm of [this.#alarm, ...this.#repeats]) this.#service.alarms.cancel(alarm);
    this.#repeats.clear();
  }

  #repeat(request: ReleaseRequest, untilMs: number): void {
    if (this.#closed) return;
    const alarm = new Alarm(() => {
      this.#repeats.delete(alarm);
      this.#node.release(request, (reply) => {
        if (reply.kind === 'failed') this.keep(request, untilMs);
      });
      this.#service.outgoing.flushLater();
    });
    this.#repeats.add(alarm);
    this.#service.alarms.set(alarm, this.#pauseMs, this.#service.clock.nowMs);
  }
}
