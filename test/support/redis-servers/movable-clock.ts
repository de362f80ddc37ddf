import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClockLibrary } from './clock-library.ts';
import { type RequestTarget, respRequest } from './resp-request.ts';

const SHOWN_LIMIT_MS = 60_000;
/** Greatest distance of the answer from what is expected, besides the time that the question took. */
const TOLERANCE_MS = 3;

/** The wall clock of one server: the real one plus an offset, which is kept in a file in the directory of the server. */
export class MovableClock {
  #offsetMs = 0;

  constructor(
    private readonly library: ClockLibrary,
    private readonly directory: string,
  ) {}

  /** The command in front of the server's, not in the environment of the guard, which would wait for the same file. */
  prefix(): string[] {
    return ['env', `LD_PRELOAD=${this.library.preload}`];
  }

  /** The variables that the server needs in its environment. */
  environment(): NodeJS.ProcessEnv {
    return {
      ...this.library.settings,
      LD_LIBRARY_PATH: this.library.libraryPath,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      // Variables that would take the place of the file.
      FAKETIME: undefined,
      FAKETIME_NO_CACHE: undefined,
    };
  }

  async set(offsetMs: number): Promise<void> {
    this.#offsetMs = offsetMs;
    await this.write();
  }

  /** Writes the offset into the directory, which may have been emptied. Never half-written: it may be read any time. */
  async write(): Promise<void> {
    const sign = this.#offsetMs < 0 ? '-' : '+';
    const seconds = (Math.abs(this.#offsetMs) / 1000).toFixed(6);
    await writeFile(`${this.#file}.next`, `${sign}${seconds}\n`);
    await rename(`${this.#file}.next`, this.#file);
  }

  /**
   * Resolves when TIME shows the offset, at the latest a second after the file was written.
   * @throws {Error} when it does not in time
   */
  async shown(server: RequestTarget): Promise<void> {
    const deadline = performance.now() + SHOWN_LIMIT_MS;
    for (;;) {
      const answer = await this.#distanceMs(server).catch((error: unknown) => error as Error);
      if (typeof answer === 'number' && Math.abs(answer) <= TOLERANCE_MS) return;
      if (performance.now() > deadline) {
        const cause = typeof answer === 'number' ? undefined : answer;
        const seen = cause ? 'cannot be asked' : `is ${String(answer)} ms away from it`;
        throw new Error(`the clock was moved by ${this.#offsetMs} ms, and TIME ${seen}`, { cause });
      }
      await sleep(Math.min(20, 1000 - (Date.now() % 1000)));
    }
  }

  /** The distance of TIME from what it should be; 0 when it may be right. */
  async #distanceMs(server: RequestTarget): Promise<number> {
    const before = Date.now() + this.#offsetMs;
    const [seconds, micros] = (await respRequest(server, ['TIME'])).split(' ').map(Number);
    const after = Date.now() + this.#offsetMs;
    const shown = (seconds ?? Number.NaN) * 1000 + (micros ?? Number.NaN) / 1000;
    if (shown < before) return shown - before;
    return shown > after ? shown - after : 0;
  }

  /**
   * libfaketime before 0.9.11 leaves two files for programs that the server might start, which nothing removes after a
   * SIGKILL. The server itself needs them no longer once it runs.
   */
  async removeSharedMemory(pid: number): Promise<void> {
    for (const name of [`sem.faketime_sem_${pid}`, `faketime_shm_${pid}`]) {
      await rm(join('/dev/shm', name), { force: true });
    }
  }

  get #file(): string {
    return join(this.directory, 'clock');
  }
}
