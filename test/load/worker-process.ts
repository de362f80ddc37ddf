import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const END_LIMIT_MS = 20_000;

/** What the settings of every worker say of one start of it. */
export interface StartSettings {
  /** Name of this start in the history. */
  readonly name: string;
  readonly historyPath: string;
  readonly seed: number;
}

/** What all starts of a worker have in common. */
export interface WorkerPlan<Settings extends StartSettings> {
  readonly index: number;
  readonly seed: number;
  /** Folder of the history files, one for each start. */
  readonly historyFolder: string;
  readonly script: string;
  /** Options of node. @default none: the script is compiled */
  readonly execArgv?: readonly string[];
  /** Further environment variables. */
  readonly environment?: NodeJS.ProcessEnv;
  readonly settings: Omit<Settings, keyof StartSettings>;
}

/** A worker that is started again after each kill, every time under a new name. */
export class WorkerProcess<Settings extends StartSettings = StartSettings, Message = unknown> {
  readonly #plan: WorkerPlan<Settings>;
  #child: ChildProcess;
  #starts = 0;
  #output = '';
  /** How processes ended that nobody killed. */
  readonly failures: string[] = [];

  /** `hear`: is told what any start of the worker sends. */
  constructor(
    plan: WorkerPlan<Settings>,
    private readonly hear: (message: Message) => void = () => undefined,
  ) {
    this.#plan = plan;
    this.#child = this.#start();
  }

  /** Name of the present start in the history. */
  get name(): string {
    return this.#name(this.#starts - 1);
  }

  get historyPaths(): string[] {
    return Array.from({ length: this.#starts }, (_, start) => this.#historyPath(start));
  }

  /** Of the present process. */
  get pid(): number {
    return this.#child.pid!;
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

  /** Tells the present process something; nothing happens when it has ended. */
  send(message: object): void {
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  /** SIGKILL, and a new process in its place. */
  async killAndRestart(): Promise<void> {
    await this.kill();
    this.restart();
  }

  /** A new process in the place of one that was killed. */
  restart(): void {
    if (isRunning(this.#child)) throw new Error(`${this.name} still runs`);
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
      this.failures.push(`${this.name} did not end within ${END_LIMIT_MS} ms`);
      child.kill('SIGKILL');
    }, END_LIMIT_MS);
    await exited;
    clearTimeout(limit);
  }

  #start(): ChildProcess {
    const { index, script, seed } = this.#plan;
    const start = this.#starts;
    this.#starts += 1;
    const name = this.#name(start);
    const settings = {
      ...this.#plan.settings,
      name,
      historyPath: this.#historyPath(start),
      seed: seed + index * 10_000 + start * 100,
    };
    // It may be killed before it gets as far as opening it.
    writeFileSync(settings.historyPath, '');
    // Without the options of this process: they are jest's.
    const child = fork(script, [JSON.stringify(settings)], {
      execArgv: [...(this.#plan.execArgv ?? [])],
      env: { ...process.env, NODE_OPTIONS: '', ...this.#plan.environment },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    this.#output = '';
    const collect = (text: Buffer): void => {
      this.#output = (this.#output + text.toString()).slice(-4_000);
    };
    child.stdout?.on('data', collect);
    child.stderr?.on('data', collect);
    child.on('message', (message) => this.hear(message as Message));
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
