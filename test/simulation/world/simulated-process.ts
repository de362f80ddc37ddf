import type { Clock, Environment, TimerHandle } from '../../../lib/core/environment.ts';
import { inModuleContext } from '../../../lib/core/system-environment.ts';
import type { Chance } from './chance.ts';
import type { World, WorldEvent } from './world.ts';

/** Wall clock at the start of every run, ms since the epoch: some day in 2026. */
export const EPOCH_MS = 1_790_000_000_000;

export interface ProcessSettings {
  /** Name of the process, and of this start of it: `p1/2`. */
  readonly name: string;
  /** Speed of its monotonic clock against true time. */
  readonly clockRate: number;
  /** Lead of its wall clock ahead of true time, ms. */
  readonly wallErrorMs: number;
  /** Step of its wall clock: coarse clocks propose equal ballots. */
  readonly wallStepMicros: number;
  /** Timers are late by up to this. */
  readonly timerLatenessMs: number;
  /** Mean number of clock readings between two stalls; Infinity = none. */
  readonly readingsPerStall: number;
  stallMs(chance: Chance): number;
}

/** Shortest time that handling one thing takes. */
const TICK_MS = 0.000_5;
/** The system's uptime has steps of 10 ms. */
const BOOT_STEP_MS = 10;

/** Receives what the simulator must know about a process. */
export interface ProcessObserver {
  stalled(fromMs: number, toMs: number): void;
  /** The code under test threw where nobody can catch it. */
  threw(error: unknown): void;
  /** The core drew a holder: an attempt begins. */
  holder(holder: string): void;
}

/** Phases as in Node.js: due timers, then what has arrived, then what waited for that. */
const PHASES = ['timers', 'poll', 'check'] as const;
type Phase = (typeof PHASES)[number];

interface SimulatedTimer {
  readonly background: boolean;
  readonly callback: () => void;
  event: WorldEvent | undefined;
}

/**
 * Client process: its clocks, timers and chance, and an event loop that can stop anywhere.
 *
 * A stall may begin at any reading of a clock, so also in the middle of synchronous code and between any two awaits: from
 * there on the process is ahead of the queue of events, what it sends leaves at its own time, and what is for it waits.
 */
export class SimulatedProcess {
  readonly settings: ProcessSettings;
  readonly environment: Environment;
  readonly timers = new Set<SimulatedTimer>();
  alive = true;
  killedAtMs = Infinity;
  /** Sum of all stalls. */
  stalledMs = 0;
  /** When the latest stall ended. */
  ranSinceMs = 0;
  wallErrorMs: number;
  readonly #world: World;
  readonly #chance: Chance;
  readonly #observer: ProcessObserver;
  readonly #bornAtMs: number;
  readonly #monotonicOffsetMs: number;
  readonly #waiting: Record<Phase, (() => void)[]> = { timers: [], poll: [], check: [] };
  /** Rest of the work of the present phase. */
  #batch: (() => void)[] = [];
  #phase: Phase = 'check';
  #running = false;
  #busyUntilMs = 0;
  #suspendedMs = 0;
  #waking = false;
  #readingsLeft: number;
  #observing = false;
  #holders = 0;

  constructor(world: World, settings: ProcessSettings, chance: Chance, observer: ProcessObserver) {
    this.#world = world;
    this.settings = settings;
    this.#chance = chance;
    this.#observer = observer;
    this.#bornAtMs = world.nowMs;
    this.#monotonicOffsetMs = chance.between(0, 1e7);
    this.wallErrorMs = settings.wallErrorMs;
    this.#readingsLeft = this.#drawReadings();
    this.environment = {
      clock: this.#clock(),
      timers: {
        set: (callback, delayMs, background = false) => this.#set(callback, delayMs, background),
        clear: (handle) => this.#clear(handle),
      },
      random: {
        fraction: () => chance.fraction(),
        mark: () => this.name.padEnd(8, '.'),
        holder: (mark) => this.#holder(mark),
      },
      afterPoll: (callback) => this.#wait('check', callback),
      endOfTick: (callback) => world.endOfTick(() => this.alive && this.#execute(callback)),
      // Process ends without a word: what was not sent is lost.
      atExit: () => () => undefined,
    };
  }

  get name(): string {
    return this.settings.name;
  }

  /** True time as this process lives it. */
  get nowMs(): number {
    return Math.max(this.#world.nowMs, this.#busyUntilMs);
  }

  /** Tells whether it can't react at the moment. */
  get isBusy(): boolean {
    return this.#hasWork || this.#busyUntilMs > this.#world.nowMs;
  }

  /** Sets what its wall clock shows from now on. */
  setWallClock(wallMs: number): void {
    this.wallErrorMs = wallMs - EPOCH_MS - this.nowMs;
  }

  /** True duration of what this process's clock measures as `ms`. */
  trueMs(ms: number): number {
    return ms / this.settings.clockRate;
  }

  /** Delivers what arrived for it, or a timer that is due: handled when it runs, in the order of its event loop. */
  deliver(run: () => void, phase: 'timers' | 'poll' = 'poll'): void {
    if (!this.alive) return;
    if (this.isBusy) {
      this.#wait(phase, run);
      return;
    }
    this.#phase = phase;
    this.#execute(run);
  }

  /** Stops it for so long. Where nothing of it was running it may continue with either timers or messages. */
  stall(ms: number): void {
    if (!this.alive) return;
    const fromMs = this.nowMs;
    if (!this.#running && !this.isBusy) this.#phase = this.#chance.pick(['check', 'timers']);
    this.#busyUntilMs = this.ranSinceMs = fromMs + ms;
    this.stalledMs += ms;
    this.#observer.stalled(fromMs, this.#busyUntilMs);
  }

  /** Blocks its event loop by a callback for so long: late timers come first. */
  block(ms: number): void {
    this.deliver(() => this.stall(ms), 'timers');
  }

  /** Lets its system sleep: as a stall, and the monotonic clock and the timers stand still, the other clocks do not. */
  suspend(ms: number): void {
    const fromMs = this.nowMs;
    this.stall(ms);
    this.#suspendedMs += ms;
    for (const timer of this.timers) {
      const { event } = timer;
      if (event !== undefined && event.atMs > fromMs)
        timer.event = this.#world.move(event, event.atMs + ms);
    }
  }

  /** Spends so much of its time on work. */
  spend(ms: number): void {
    this.#busyUntilMs = this.nowMs + ms;
  }

  /** Stalls it only on request from now on. */
  calm(): void {
    this.#readingsLeft = Infinity;
  }

  /** SIGKILL. Promise reactions of this instant may still run, but have no effect on anything outside. */
  kill(): void {
    this.alive = false;
    this.killedAtMs = this.#world.nowMs;
    for (const phase of PHASES) this.#waiting[phase] = [];
    this.#batch = [];
    for (const timer of this.timers) this.#clear(timer);
  }

  /** Looks at the code under test without its clock readings counting. */
  observe<Result>(look: () => Result): Result {
    this.#observing = true;
    try {
      return look();
    } finally {
      this.#observing = false;
    }
  }

  /** Sleeps for callers; not among the timers with which the core could keep a process alive. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#set(resolve, ms, true));
  }

  get #hasWork(): boolean {
    const { timers, poll, check } = this.#waiting;
    return this.#batch.length + timers.length + poll.length + check.length > 0;
  }

  #wait(phase: Phase, run: () => void): void {
    if (!this.alive) return;
    this.#waiting[phase].push(run);
    if (!this.#running) this.#wakeLater();
  }

  #execute(run: () => void): void {
    this.#world.dirty = true;
    // Nothing happens twice at one instant of a process, so that its history has an order.
    this.#busyUntilMs = this.nowMs + TICK_MS;
    this.#running = true;
    this.#guard(run);
    this.#running = false;
    if (this.#hasWork) this.#wakeLater();
  }

  /** Nothing of the core runs in the async context of the caller that asked for it. */
  #guard(run: () => void): void {
    try {
      inModuleContext(run);
    } catch (error) {
      this.#observer.threw(error);
    }
  }

  #wakeLater(): void {
    if (this.#waking) return;
    this.#waking = true;
    this.#world.at(this.#busyUntilMs, () => this.#wake());
  }

  #wake(): void {
    this.#waking = false;
    if (!this.alive) return;
    if (this.#busyUntilMs <= this.#world.nowMs) {
      const run = this.#next();
      if (run) this.#execute(run);
    } else this.#wakeLater();
  }

  #next(): (() => void) | undefined {
    // Timers that became due while others ran still come before messages.
    if (this.#phase === 'timers') this.#batch.push(...this.#waiting.timers.splice(0));
    while (this.#batch.length === 0 && this.#hasWork) {
      this.#phase = PHASES[(PHASES.indexOf(this.#phase) + 1) % PHASES.length]!;
      this.#batch = this.#waiting[this.#phase].splice(0);
    }
    return this.#batch.shift();
  }

  #clock(): Clock {
    return {
      monotonicMs: () => (this.#read(), this.#monotonicMs()),
      wallMicros: () => (this.#read(), this.#wallMicros()),
      sinceBootMs: () => {
        this.#read();
        const ms = this.#monotonicMs() + this.#suspendedMs * this.settings.clockRate;
        return Math.floor(ms / BOOT_STEP_MS) * BOOT_STEP_MS;
      },
    };
  }

  #monotonicMs(): number {
    const ranMs = this.nowMs - this.#bornAtMs - this.#suspendedMs;
    return this.#monotonicOffsetMs + ranMs * this.settings.clockRate;
  }

  #wallMicros(): number {
    const { wallStepMicros } = this.settings;
    const micros = (EPOCH_MS + this.nowMs + this.wallErrorMs) * 1000;
    return Math.floor(micros / wallStepMicros) * wallStepMicros;
  }

  #read(): void {
    if (this.#observing) return;
    this.#readingsLeft -= 1;
    if (this.#readingsLeft > 0) return;
    this.#readingsLeft = this.#drawReadings();
    this.stall(this.settings.stallMs(this.#chance));
  }

  #drawReadings(): number {
    const mean = this.settings.readingsPerStall;
    return mean === Infinity ? Infinity : this.#chance.integer(1, 2 * mean);
  }

  #holder(mark: string): string {
    const holder = `${mark}#${++this.#holders}`;
    this.#observer.holder(holder);
    return holder;
  }

  #set(callback: () => void, delayMs: number, background: boolean): TimerHandle {
    const timer: SimulatedTimer = { background, callback, event: undefined };
    if (!this.alive) return timer;
    const lateMs = this.#chance.between(0, this.settings.timerLatenessMs);
    const dueMs = this.nowMs + this.trueMs(Math.max(0, delayMs || 0)) + lateMs;
    this.timers.add(timer);
    timer.event = this.#world.at(dueMs, () => this.deliver(() => this.#fire(timer), 'timers'));
    return timer;
  }

  #fire(timer: SimulatedTimer): void {
    if (this.timers.delete(timer)) timer.callback();
  }

  #clear(handle: TimerHandle): void {
    const timer = handle as SimulatedTimer | undefined;
    if (timer?.event === undefined || !this.timers.delete(timer)) return;
    this.#world.cancel(timer.event);
  }
}
