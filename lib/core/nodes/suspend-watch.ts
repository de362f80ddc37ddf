import type { Environment } from '../environment.ts';

/** The wall clock is compared with the monotonic one; smaller steps are how they drift and are read one after the other. */
const NOTICED_STEP_MS = 20;
/** Time since boot comes in steps of 10 ms, and is read after the other clock. */
const BOOT_CLOCK_ERROR_MS = 25;

/** What a look at the clocks found. */
export type ClockStep = 'none' | 'suspended' | 'wall-clock';

/**
 * Time that counts for locks: the monotonic clock, and what it missed while the operating system was suspended. The servers
 * were not suspended, so keys have expired meanwhile.
 *
 * A suspend moves the wall clock against the monotonic one, which is cheap to see; only then the clock since boot, which
 * counts suspended time on Linux, is asked.
 */
export class SuspendWatch {
  /** How long the system was suspended since this was made, as far as it was noticed. */
  suspendedMs = 0;
  readonly #environment: Environment;
  #wallAheadMs: number;
  #bootAheadMs: number;

  constructor(environment: Environment) {
    this.#environment = environment;
    this.#wallAheadMs = environment.clock.wallAheadMs();
    this.#bootAheadMs = this.#readBootAheadMs();
  }

  look(): ClockStep {
    const wallAheadMs = this.#environment.clock.wallAheadMs();
    const stepMs = wallAheadMs - this.#wallAheadMs;
    this.#wallAheadMs = wallAheadMs;
    if (Math.abs(stepMs) <= NOTICED_STEP_MS) return 'none';
    const bootAheadMs = this.#readBootAheadMs();
    const missedMs = bootAheadMs - this.#bootAheadMs;
    if (missedMs <= BOOT_CLOCK_ERROR_MS) return 'wall-clock';
    this.#bootAheadMs = bootAheadMs;
    this.suspendedMs += missedMs;
    return 'suspended';
  }

  #readBootAheadMs(): number {
    const { clock } = this.#environment;
    return clock.sinceBootMs() - clock.monotonicMs();
  }
}
