import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Bounds that only a hang crosses. */
const START_LIMIT_MS = 120_000;
const END_LIMIT_MS = 100_000;

/** `node main.js --serve` in a process of its own, as `npm start` runs it. */
export class ServedSample {
  #output = '';

  private constructor(private readonly child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text;
      });
    }
  }

  /** Starts it; it has to be compiled before (`npm run build:sample`). */
  static start(
    words: readonly string[] = ['--port', '0'],
    environment: Readonly<Record<string, string>> = {},
  ): ServedSample {
    return new ServedSample(
      spawn(process.execPath, ['sample/dist/sample/src/main.js', '--serve', ...words], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, ...environment },
      }),
    );
  }

  /** Output that it has written so far. */
  get output(): string {
    return this.#output;
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** The page's address, once it is served. @throws with the output when it ends before. */
  async url(): Promise<string> {
    const deadline = performance.now() + START_LIMIT_MS;
    for (;;) {
      const found = /Open (http:\S+)/.exec(this.#output)?.[1];
      if (found) return found;
      const hasEnded = this.child.exitCode !== null || this.child.signalCode !== null;
      if (hasEnded || performance.now() > deadline) {
        throw new Error(`The sample does not serve its page:\n${this.#output}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Asks it to end, as Ctrl-C does. @returns its exit code, or the signal that killed it after too long a time. */
  async end(signal: 'SIGINT' | 'SIGTERM' = 'SIGINT'): Promise<number | string | null> {
    this.child.kill(signal);
    return this.exit();
  }

  /** Waits until it has ended. */
  async exit(): Promise<number | string | null> {
    const { child } = this;
    const killer = setTimeout(() => child.kill('SIGKILL'), END_LIMIT_MS);
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    clearTimeout(killer);
    return child.exitCode ?? child.signalCode;
  }
}
