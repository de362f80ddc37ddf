import { setTimeout as sleep } from 'node:timers/promises';

/** A bound that only a hang crosses; what is left then ends with this process. */
const TASK_LIMIT_MS = 15_000;

/** Tasks for what was started and has to be ended, also when the show is interrupted. */
export class Cleanup {
  readonly #tasks: (() => Promise<unknown>)[] = [];
  #running: Promise<void> | undefined;

  /** Has `task` run in the end, before those that were adopted earlier. Its thing may have ended by then. */
  adopt(task: () => Promise<unknown>): void {
    this.#tasks.push(task);
  }

  get hasStarted(): boolean {
    return this.#running !== undefined;
  }

  /** Ends everything, once, whatever fails on the way. Never rejects. */
  run(): Promise<void> {
    this.#running ??= this.#runAll();
    return this.#running;
  }

  async #runAll(): Promise<void> {
    // A task for something that is still being started may be adopted meanwhile.
    for (let task = this.#tasks.pop(); task; task = this.#tasks.pop()) {
      const limit = sleep(TASK_LIMIT_MS, undefined, { ref: false });
      await Promise.race([task(), limit]).catch(() => undefined);
    }
  }
}
