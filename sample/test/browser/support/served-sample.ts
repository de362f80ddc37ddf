import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { eventually } from '../../../../test/support/eventually.ts';

/** A bound that only a hang crosses. */
const LIMIT_MS = 120_000;

/** The page of the sample, served by a process of its own, as `npm start -- --serve` does it. */
export class ServedSample {
  /** What it has printed so far. */
  output = '';
  readonly exit: Promise<number | string | null>;
  readonly #child: ChildProcess;

  /** Starts it; the package has to be built before (`npm run build:sample`). */
  constructor(port = 0) {
    const loader = ['--import', './test/support/typescript-loader.mjs'];
    const words = ['sample/show/main.ts', '--serve', '--port', String(port)];
    this.#child = spawn(process.execPath, [...loader, ...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
      // The options of this process are jest's.
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    const keep = (text: Buffer): void => void (this.output += text.toString());
    this.#child.stdout!.on('data', keep);
    this.#child.stderr!.on('data', keep);
    this.exit = once(this.#child, 'exit').then(([code, signal]) => code ?? signal);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** The address of the page, once it is served. */
  url(): Promise<URL> {
    return eventually(
      () => {
        const [, url] = /Open (http:\S+)/.exec(this.output) ?? [];
        if (url === undefined)
          throw new Error(`The sample does not serve its page: ${this.output}`);
        return new URL(url);
      },
      { timeoutMs: LIMIT_MS },
    );
  }

  /** Ends it as Ctrl-C does. Resolves with its exit code, or the signal that killed it after too long a time. */
  async end(): Promise<number | string | null> {
    const killer = setTimeout(() => this.#child.kill('SIGKILL'), LIMIT_MS);
    this.#child.kill('SIGINT');
    const code = await this.exit;
    clearTimeout(killer);
    return code;
  }
}
