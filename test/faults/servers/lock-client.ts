import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { RedlockErrorCode } from '../../../lib/core/errors.ts';
import type { RedlockOptions } from '../../../lib/core/options/options.ts';

const END_LIMIT_MS = 20_000;
const PROGRAM = './test/faults/servers/lock-client-process.ts';
const LOADER = './test/support/typescript-loader.mjs';
const NODE_OPTIONS = [
  '--unhandled-rejections=strict',
  '--disable-warning=ExperimentalWarning',
  '--import',
  LOADER,
];

export interface LockQuestion {
  readonly id: number;
  readonly action: 'acquire' | 'extend' | 'release';
  readonly key: string;
  readonly waitMs: number;
}

export interface LockAnswer {
  readonly id: number;
  /** `raw error`: an error that is none of ours. */
  readonly outcome: 'done' | RedlockErrorCode | 'raw error' | 'not ready';
  readonly token?: number;
  readonly message?: string;
}

/** A process that uses locks as an application does: a rejection that nobody handles ends it with an error. */
export class LockClient {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (answer: LockAnswer) => void>();
  #questions = 0;
  #output = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
    const collect = (text: Buffer): void => {
      this.#output = (this.#output + text.toString()).slice(-4_000);
    };
    child.stdout?.on('data', collect);
    child.stderr?.on('data', collect);
    child.on('message', (answer: LockAnswer) => {
      this.#waiting.get(answer.id)?.(answer);
      this.#waiting.delete(answer.id);
    });
    child.once('exit', () => {
      for (const settle of this.#waiting.values()) {
        settle({ id: 0, outcome: 'raw error', message: `the process ended: ${this.#output}` });
      }
    });
  }

  /** Resolves when a quorum has been joined. */
  static async start(urls: readonly string[], options: RedlockOptions): Promise<LockClient> {
    const child = spawn(
      process.execPath,
      [...NODE_OPTIONS, PROGRAM, JSON.stringify({ urls, options })],
      { env: { ...process.env, NODE_OPTIONS: '' }, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] },
    );
    const client = new LockClient(child);
    const { outcome, message } = await new Promise<LockAnswer>((resolve) =>
      client.#waiting.set(0, resolve),
    );
    if (outcome !== 'done') throw new Error(`a process that uses locks: ${message ?? outcome}`);
    return client;
  }

  /** One try, or tries for `waitMs`. Never rejects. */
  acquire(key: string, waitMs = 0): Promise<LockAnswer> {
    return this.#ask({ action: 'acquire', key, waitMs });
  }

  extend(key: string): Promise<LockAnswer> {
    return this.#ask({ action: 'extend', key, waitMs: 0 });
  }

  release(key: string): Promise<LockAnswer> {
    return this.#ask({ action: 'release', key, waitMs: 0 });
  }

  /** Lets it close its locks and end by itself. Resolves with what went wrong in its life: an empty text when nothing did. */
  async finish(): Promise<string> {
    const child = this.#child;
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit');
      const limit = setTimeout(() => child.kill('SIGKILL'), END_LIMIT_MS);
      if (child.connected) child.disconnect();
      await exited;
      clearTimeout(limit);
    }
    const end = child.exitCode === 0 ? '' : `ended with ${child.exitCode ?? child.signalCode}: `;
    return end + this.#output;
  }

  #ask(question: Omit<LockQuestion, 'id'>): Promise<LockAnswer> {
    const id = (this.#questions += 1);
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      const lost = (error: Error | null): void => {
        if (error)
          resolve({ id, outcome: 'raw error', message: `${error.message} ${this.#output}` });
      };
      this.#child.send({ ...question, id }, lost);
    });
  }
}
