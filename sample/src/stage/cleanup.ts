/** A bound that only a hang crosses; what is left then ends with this process. */
const TASK_LIMIT_MS = 15_000;

/** Tasks for what was started and has to be ended, also when the story is interrupted. */
export class Cleanup {
  readonly #tasks: (() => Promise<unknown>)[] = [];
  #running: Promise<void> | undefined;

  /** Runs `task` from now on at the end, before those that were adopted earlier. It may run after its thing ended already. */
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
    // Task for something that is still being started may be adopted meanwhile.
    for (let task = this.#tasks.pop(); task; task = this.#tasks.pop()) {
      await withinLimit(task()).catch(() => undefined);
    }
  }
}

async function withinLimit(task: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, TASK_LIMIT_MS);
  });
  try {
    await Promise.race([task, limit]);
  } finally {
    clearTimeout(timer);
  }
}
