import { Alarm } from '../deadlines.ts';
import type { LockNode, ReleaseRequest } from './lock-node.ts';
import type { Service } from './service.ts';

/** The releases that are kept for one node; beyond it the oldest is dropped and its key expires with its ttl. */
const MAX_ENTRIES = 10_000;

/**
 * Sees to it that releases reach one node: one that could not be sent, or got no answer, is repeated on the next connection and
 * after every node timeout, until all of its keys have expired.
 */
export class ReleaseOutbox {
  readonly #node: LockNode;
  readonly #service: Service;
  readonly #pauseMs: number;
  /** The releases by holder: the request, and when every key of this lock has expired. */
  readonly #kept = new Map<string, { request: ReleaseRequest; untilMs: number }>();
  readonly #alarm = new Alarm(() => this.flush());
  #closed = false;

  constructor(node: LockNode, service: Service) {
    this.#node = node;
    this.#service = service;
    this.#pauseMs = service.options.acquire.nodeTimeoutMs;
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
    if (!this.#alarm.isSet) alarms.set(this.#alarm, this.#pauseMs, nowMs);
  }

  flush(): void {
    const { nowMs } = this.#service.clock;
    const entries = [...this.#kept.values()];
    this.#kept.clear();
    for (const { request, untilMs } of entries) {
      if (untilMs <= nowMs) continue;
      this.#node.release(request, (reply) => {
        if (reply.kind === 'failed') this.keep(request, untilMs);
      });
    }
    if (entries.length > 0) this.#service.outgoing.flushLater();
  }

  close(): void {
    this.#closed = true;
    this.#kept.clear();
    this.#service.alarms.cancel(this.#alarm);
  }
}
