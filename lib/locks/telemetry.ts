import type { AboutKeys, LockEvent } from '../core/events.ts';
import { CALLED_BY, type CalledOptions } from '../core/holding/reentrancy.ts';
import type { Lock } from '../core/lock.ts';
import type { LockStatus } from '../core/nodes/status.ts';
import { firstFailure, type LockLogger } from './event-log.ts';

/** The telemetry of one call for a lock, from its beginning to its end. */
export interface CallTrace {
  /**
   * The caller has its lock. A section passes `work`: run it at once, in the async context that its own spans shall have as
   * parent. `acquire` and `tryAcquire` pass none.
   */
  acquired(lock: Lock, work?: () => unknown): void;
  /**
   * The call has ended, and with it its section. Without `acquired` and without an error it attached to another call.
   *
   * @param isBusy `tryAcquire` found the lock busy, which is no error
   */
  ended(error?: unknown, isBusy?: boolean): void;
}

/**
 * The telemetry of the module, such as `openTelemetry()` of `nestjs-fenced-lock/telemetry`. What it throws changes nothing for locks; the
 * first failure is logged as an error.
 */
export interface LockTelemetry {
  /** A call for a lock begins, in the async context of its caller. */
  begin(call: AboutKeys): CallTrace;
  /** Receives every event, as `onEvent` does. */
  onEvent(event: LockEvent): void;
  /** Observes the state of locks and nodes from now on, until the returned function is called. */
  observe(status: () => LockStatus): () => void;
}

type Work<Result> = (lock: Lock) => Promise<Result> | Result;

/** Keeps what a telemetry throws away from the locks. */
export class SafeTelemetry {
  readonly #telemetry: LockTelemetry;
  readonly #failed: (error: unknown) => void;

  constructor(telemetry: LockTelemetry, logger: Pick<LockLogger, 'error'>) {
    this.#telemetry = telemetry;
    this.#failed = firstFailure(logger, 'telemetry');
  }

  onEvent(event: LockEvent): void {
    this.#safely(() => this.#telemetry.onEvent(event));
  }

  observe(status: () => LockStatus): () => void {
    const end = this.#safely(() => this.#telemetry.observe(status));
    return () => this.#safely(() => end?.());
  }

  /** @param options of the call, which may name the method under `@Fenced` that makes it */
  begin(keys: string | readonly string[], options: CalledOptions | undefined): SafeTrace {
    const call = { keys: [keys].flat(), ...options?.[CALLED_BY] };
    const trace = this.#safely(() => this.#telemetry.begin(call));
    return new SafeTrace((use) => this.#safely(() => trace && use(trace)));
  }

  #safely<Result>(call: () => Result): Result | undefined {
    try {
      return call();
    } catch (error) {
      this.#failed(error);
      return undefined;
    }
  }
}

/** A call whose work runs once, and whose outcome is its own, whatever its telemetry does. */
class SafeTrace {
  constructor(private readonly safely: (use: (trace: CallTrace) => void) => void) {}

  /** The work to be given to the section instead of `work`. */
  around<Result>(work: Work<Result>): Work<Result> {
    if (typeof work !== 'function') return work;
    return (lock) => {
      let result: Promise<Result> | undefined;
      // An error of the work is no error of the telemetry that runs it.
      const begin = () => (result ??= new Promise((resolve) => resolve(work(lock))));
      this.safely((trace) => trace.acquired(lock, begin));
      return begin();
    };
  }

  /** It ends with the section. */
  section<Result>(outcome: Promise<Result>): Promise<Result> {
    void outcome.then(
      () => this.#end(),
      (error: unknown) => this.#end(error),
    );
    return outcome;
  }

  /** It ends when the lock is there, or refused. */
  lock<Result extends Lock | null>(outcome: Promise<Result>): Promise<Result> {
    void outcome.then(
      (lock) => {
        if (lock !== null) this.safely((trace) => trace.acquired(lock));
        this.#end(undefined, lock === null);
      },
      (error: unknown) => this.#end(error),
    );
    return outcome;
  }

  #end(error?: unknown, isBusy?: boolean): void {
    this.safely((trace) => trace.ended(error, isBusy));
  }
}
