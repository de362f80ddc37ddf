/**
 * The spans and metrics of locks for OpenTelemetry. This entry point needs `@opentelemetry/api`.
 *
 * @module nestjs-fenced-lock/telemetry
 */
import { metrics, trace, type Meter, type Tracer } from '@opentelemetry/api';
import type { LockTelemetry } from '../locks/telemetry.ts';
import { lockMetrics } from './lock-metrics.ts';
import { endHold, LockSpans } from './lock-spans.ts';

const NAME = 'nestjs-fenced-lock';

/** The options of {@link openTelemetry}. */
interface OpenTelemetryOptions {
  /** The meter of all metrics. @default that of the global provider when the application starts */
  readonly meter?: Meter;
  /** The tracer of all spans. @default that of the global provider */
  readonly tracer?: Tracer;
}

/**
 * The option `telemetry` for OpenTelemetry: spans `lock.acquire` and `lock.hold` in the trace of the caller, and the metrics of
 * docs/observability.md. Labels of metrics are the key template and the method under `@Fenced`, never a key; spans have both. It
 * uses what the SDK of the application has registered, and does nothing without one.
 *
 * @example
 * ```ts
 * RedlockModule.forRoot({ nodes, telemetry: openTelemetry() });
 * ```
 */
function openTelemetry(options: OpenTelemetryOptions = {}): LockTelemetry {
  const { tracer = trace.getTracer(NAME) } = options;
  let made: ReturnType<typeof lockMetrics> | undefined;
  // A provider of metrics may be registered after the modules are declared, and a meter from before measures nothing.
  const measured = () => (made ??= lockMetrics(options.meter ?? metrics.getMeter(NAME)));
  return {
    begin: (call) => new LockSpans(tracer, call),
    onEvent(event) {
      endHold(event);
      measured().onEvent(event);
    },
    observe: (status) => measured().observe(status),
  };
}

export { openTelemetry, type OpenTelemetryOptions };
