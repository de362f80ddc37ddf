import type { World } from './world.ts';

/** Story of a run, line by line; costs nothing while it is off. */
export class Trace {
  readonly on: boolean;
  readonly lines: string[] = [];
  readonly #world: World;

  constructor(world: World, on: boolean) {
    this.#world = world;
    this.on = on;
  }

  /** `atMs` is given where a process that was stalled is ahead of the queue of events. */
  add(who: string, what: string, atMs = this.#world.nowMs): void {
    if (this.on) this.lines.push(`${atMs.toFixed(3).padStart(11)} ${who.padEnd(8)} ${what}`);
  }
}
