import type { Environment, TimerHandle } from '../../../lib/core/environment.ts';
import type { Chance } from './chance.ts';
import type { World, WorldEvent } from './world.ts';

/** Wall clock at the start of every run, ms since the epoch: some day in 2026. */
export const EPOCH_MS = 1_790_000_000_000;

export interface ProcessSettings {
  /** Which process, and which start of it: `p1/2`. */
  readonly name: string;
  /** Speed of its monotonic clock against true time. */
  readonly clockRate: number;
  /** How far its wall clock is ahead of true time, ms. */
  readonly wallErrorMs: number;
  /** Step of its wall clock: coarse clocks propose equal ballots. */
  readonly wallStepMicros: number;
  /** Timers are late by up to this. */
  readonly timerLatenessMs: number;
  /** Mean number of clock readings between two stalls; Infinity = none. */
  readonly readingsPerStall: number;
  /** How long one stall lasts. */
  stallMs(chance: Chance): number;
}

/** How long handling one thing takes at least. */
const TICK_MS = 0.000_5;

/** Hears what the simulator must know about a process. */
export interface ProcessObserver {
  stalled(fromMs: number, toMs: number): void;
  /** The code under test threw where nobody can catch it. */
  threw(error: unknown): void;
  /** The core drew a holder: an attempt begins. */
  holder(holder: string): void;
}

interface InboxItem {
  readonly isTimer: boolean;
  readonly run: () => void;
}

interface SimulatedTimer {
  readonly background: boolean;
  readonly callback: () => void;
  event: WorldEvent | undefined;
}

/**
 * One client process: its clocks, timers and chance, and an event loop that can stop anywhere.
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
  wallErrorMs: number;
  readonly #world: World;
  readonly #chance: Chance;
  readonly #observer: ProcessObserver;
  readonly #bornAtMs: number;
  readonly #monotonicOffsetMs: number;
  #busyUntilMs = 0;
  #inbox: InboxItem[] = [];
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
      clock: {
        monotonicMs: () => (this.#read(), this.#monotonicMs()),
        wallMicros: () => (this.#read(), this.#wallMicros()),
      },
      timers: {
        set: (callback, delayMs, background = false) => this.#set(callback, delayMs, background),
        clear: (handle) => this.#clear(handle),
      },
      random: { fraction: () => chance.fraction(), holder: () => this.#holder() },
    };
  }

  get name(): string {
    return this.settings.name;
  }

  /** True time as this process lives it. */
  get nowMs(): number {
    return Math.max(this.#world.nowMs, this.#busyUntilMs);
  }

  /** It can't react at the moment. */
  get isBusy(): boolean {
    return this.#inbox.length > 0 || this.#busyUntilMs > this.#world.nowMs;
  }

  /** From now on its wall clock shows this. */
  setWallClock(wallMs: number): void {
    this.wallErrorMs = wallMs - EPOCH_MS - this.nowMs;
  }

  /** True duration of what this process's clock measures as `ms`. */
  trueMs(ms: number): number {
    return ms / this.settings.clockRate;
  }

  /** Something arrived for it: handled when it runs, in order. */
  deliver(run: () => void, isTimer = false): void {
    if (!this.alive) return;
    if (!this.isBusy) {
      this.#execute(run);
      return;
    }
    this.#inbox.push({ isTimer, run });
    this.#wakeLater();
  }

  /** It does not run for so long. */
  stall(ms: number): void {
    if (!this.alive) return;
    const fromMs = this.nowMs;
    this.#busyUntilMs = fromMs + ms;
    this.stalledMs += ms;
    this.#observer.stalled(fromMs, this.#busyUntilMs);
  }

  /** From now on it stalls only when told to. */
  calm(): void {
    this.#readingsLeft = Infinity;
  }

  /** SIGKILL. Promise reactions of this instant may still run, but have no effect on anything outside. */
  kill(): void {
    this.alive = false;
    this.killedAtMs = this.#world.nowMs;
    this.#inbox = [];
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

  /** For callers; not among the timers with which the core could keep a process alive. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#set(resolve, ms, true));
  }

  #execute(run: () => void): void {
    this.#world.dirty = true;
    // Nothing happens twice at one instant of a process, so that its history has an order.
    this.#busyUntilMs = this.nowMs + TICK_MS;
    try {
      run();
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
      // As in Node.js, where due timers come before waiting replies; or as it came.
      if (this.#chance.happens(0.5))
        this.#inbox.sort((a, b) => Number(b.isTimer) - Number(a.isTimer));
      const item = this.#inbox.shift();
      if (item) this.#execute(item.run);
    }
    if (this.#inbox.length > 0) this.#wakeLater();
  }

  #monotonicMs(): number {
    return this.#monotonicOffsetMs + (this.nowMs - this.#bornAtMs) * this.settings.clockRate;
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

  #holder(): string {
    const holder = `${this.name}#${++this.#holders}`;
    this.#observer.holder(holder);
    return holder;
  }

  #set(callback: () => void, delayMs: number, background: boolean): TimerHandle {
    const timer: SimulatedTimer = { background, callback, event: undefined };
    if (!this.alive) return timer;
    const lateMs = this.#chance.between(0, this.settings.timerLatenessMs);
    const dueMs = this.nowMs + this.trueMs(Math.max(0, delayMs || 0)) + lateMs;
    this.timers.add(timer);
    timer.event = this.#world.at(dueMs, () => this.deliver(() => this.#fire(timer), true));
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
