import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WorkerSettings } from './worker-settings.ts';

const END_LIMIT_MS = 20_000;

/** What all starts of a worker have in common. */
export type WorkerPlan = Omit<WorkerSettings, 'name' | 'historyPath' | 'seed'> & {
  readonly index: number;
  readonly seed: number;
  /** Folder of the history files, one for each start. */
  readonly historyFolder: string;
  /** The compiled worker. */
  readonly script: string;
};

/** A worker that is started again after each kill, every time under a new name. */
export class WorkerProcess {
  readonly #plan: WorkerPlan;
  #child: ChildProcess;
  #starts = 0;
  #output = '';
  /** How processes ended that nobody killed. */
  readonly failures: string[] = [];

  constructor(plan: WorkerPlan) {
    this.#plan = plan;
    this.#child = this.#start();
  }

  get historyPaths(): string[] {
    return Array.from({ length: this.#starts }, (_, start) => this.#historyPath(start));
  }

  /** Resolves when the present process competes for locks, or has ended. */
  async started(): Promise<void> {
    await Promise.race([once(this.#child, 'message'), once(this.#child, 'exit')]);
  }

  /** SIGSTOP: nothing in the process runs, and its connections stay open. */
  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  /** SIGKILL, and a new process in its place. */
  async killAndRestart(): Promise<void> {
    await this.kill();
    this.#child = this.#start();
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!isRunning(child)) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  /** Lets the worker finish what it holds, and end. */
  async finish(): Promise<void> {
    const child = this.#child;
    if (!isRunning(child)) return;
    const exited = once(child, 'exit');
    if (child.connected) child.disconnect();
    const limit = setTimeout(() => {
      this.failures.push(`${this.#name(this.#starts - 1)} did not end within ${END_LIMIT_MS} ms`);
      child.kill('SIGKILL');
    }, END_LIMIT_MS);
    await exited;
    clearTimeout(limit);
  }

  #start(): ChildProcess {
    const { index, historyFolder: _, script, seed, ...shared } = this.#plan;
    const start = this.#starts;
    this.#starts += 1;
    const name = this.#name(start);
    const settings: WorkerSettings = {
      ...shared,
      name,
      historyPath: this.#historyPath(start),
      seed: seed + index * 10_000 + start * 100,
    };
    // It may be killed before it gets as far as opening it.
    writeFileSync(settings.historyPath, '');
    // Without the options of this process: they are jest's.
    const child = fork(script, [JSON.stringify(settings)], {
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    this.#output = '';
    const collect = (text: Buffer): void => {
      this.#output = (this.#output + text.toString()).slice(-4_000);
    };
    child.stdout?.on('data', collect);
    child.stderr?.on('data', collect);
    child.once('exit', (code, signal) => {
      if (code !== 0 && signal !== 'SIGKILL') {
        this.failures.push(`${name} ended with ${code ?? signal}: ${this.#output}`);
      }
    });
    return child;
  }

  #name(start: number): string {
    return `worker-${this.#plan.index}/${start}`;
  }

  #historyPath(start: number): string {
    return join(this.#plan.historyFolder, `worker-${this.#plan.index}-${start}.jsonl`);
  }
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}
