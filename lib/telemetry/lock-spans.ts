import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Attributes, Span, Tracer } from '@opentelemetry/api';
import type { AboutKeys, Caller, LockEvent } from '../core/events.ts';
import { isRedlockError } from '../core/errors.ts';
import type { Lock } from '../core/lock.ts';
import type { CallTrace } from '../locks/telemetry.ts';

/** The labels of metrics, and the attributes of spans: there are no more of them than methods. */
export function labelsOf({ template, where }: Caller): Attributes {
  return { 'lock.template': template, 'lock.where': where };
}

/** The spans of the locks that `acquire` gave to callers, by holder. */
const holds = new Map<string, Span>();

export function endHold(event: LockEvent): void {
  if (event.type !== 'released' && event.type !== 'lost') return;
  const span = holds.get(event.holder);
  holds.delete(event.holder);
  if (event.type === 'lost') failed(span, event.error);
  span?.end();
}

/** The spans of one call, both below that of its caller. */
export class LockSpans implements CallTrace {
  readonly #tracer: Tracer;
  readonly #caller = context.active();
  readonly #attributes: Attributes;
  #span: Span | undefined;

  constructor(tracer: Tracer, call: AboutKeys) {
    this.#tracer = tracer;
    this.#attributes = { 'lock.keys': [...call.keys], ...labelsOf(call) };
    this.#span = this.#start('lock.acquire');
  }

  acquired({ token }: Lock, work?: () => unknown): void {
    this.#attributes['lock.token'] = token.value;
    this.#span?.setAttribute('lock.token', token.value).end();
    const hold = this.#start('lock.hold');
    this.#span = work && hold;
    if (work) context.with(trace.setSpan(this.#caller, hold), work);
    else holds.set(token.holder, hold);
  }

  ended(error?: unknown, isBusy = typeOf(error) === 'LOCK_BUSY'): void {
    // Contention is no error of the wait. Within the work it is an error of the work.
    if (isBusy && this.#attributes['lock.token'] === undefined)
      this.#span?.setAttribute('error.type', 'LOCK_BUSY');
    else if (error !== undefined) failed(this.#span, error);
    this.#span?.end();
  }

  #start(name: string): Span {
    return this.#tracer.startSpan(name, { attributes: this.#attributes }, this.#caller);
  }
}

function failed(span: Span | undefined, error: unknown): void {
  span?.setAttribute('error.type', typeOf(error));
  span?.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
}

/** What `error.type` says of it. */
export function typeOf(error: unknown): string {
  if (isRedlockError(error)) return error.code;
  return error instanceof Error ? error.name : typeof error;
}
