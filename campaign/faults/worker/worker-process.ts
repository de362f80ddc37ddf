import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyNow, type StalledEvent } from '../../../test/history/lock-history.ts';
import { stallBeforeKill } from '../../../test/history/record-stalls.ts';
import { Program, type Edit } from '../../../test/support/program.ts';
import type { WorkerCommand, WorkerSettings } from './worker-settings.ts';

const END_LIMIT_MS = 20_000;

/** The settings that each start of a worker gets for itself. */
export type StartSettings = Pick<WorkerSettings, 'name' | 'historyPath' | 'notePath' | 'seed'>;

/** The part that all starts of a worker have in common. */
export interface WorkerPlan<Settings extends StartSettings> {
  readonly script: string;
  readonly index: number;
  readonly seed: number;
  /** The folder of the history files, one for each start. */
  readonly historyFolder: string;
  readonly edits: readonly Edit[];
  readonly settings: Omit<Settings, keyof StartSettings>;
}

/** A worker that is started again after each kill, every time under a new name. */
export class WorkerProcess<
  Settings extends StartSettings = WorkerSettings,
  Command extends object = WorkerCommand,
> {
  readonly #plan: WorkerPlan<Settings>;
  #program: Program<Command>;
  #starts = 0;
  /** Ends of processes that nobody killed. */
  readonly failures: string[] = [];

  constructor(plan: WorkerPlan<Settings>) {
    this.#plan = plan;
    this.#program = this.#start();
  }

  /** The name of the present start in the history. */
  get name(): string {
    return `${this.place}/${this.#starts - 1}`;
  }

  /** The beginning of the names of all starts. */
  get place(): string {
    return `worker-${this.#plan.index}`;
  }

  get historyPaths(): string[] {
    return Array.from({ length: this.#starts }, (_, start) => this.#historyPath(start));
  }

  /** The file in which the present process keeps the time of its last tick. */
  get notePath(): string {
    return `${this.#historyPath(this.#starts - 1)}.tick`;
  }

  /** Process id of the present start. */
  get pid(): number {
    return this.#program.child.pid!;
  }

  /** Resolves when the present process competes for locks, or has ended. */
  async started(): Promise<void> {
    await this.#program.first().catch(() => undefined);
  }

  /** SIGSTOP: nothing in the process runs, and its connections stay open. */
  freeze(): void {
    this.#program.child.kill('SIGSTOP');
  }

  resume(): void {
    this.#program.child.kill('SIGCONT');
  }

  /** Rejects when the process ends before it has answered. */
  ask<Answer = void>(command: Command): Promise<Answer> {
    return this.#program.ask(command);
  }

  /** A new process in the place of one that was killed. */
  restart(): void {
    if (this.#program.isRunning) throw new Error(`${this.name} still runs`);
    this.#program = this.#start();
  }

  /** SIGKILL. Resolves with the stall up to `killedAt` that it could not write down any more, when there was one. */
  async kill(killedAt = historyNow()): Promise<StalledEvent | undefined> {
    await this.#program.kill();
    return stallBeforeKill(this.notePath, this.name, killedAt);
  }

  /** Lets the worker finish what it holds, and end. */
  async finish(): Promise<void> {
    if (await this.#program.finish(END_LIMIT_MS)) return;
    this.failures.push(`${this.name} did not end within ${END_LIMIT_MS} ms`);
  }

  #start(): Program<Command> {
    const { script, index, seed, edits, settings } = this.#plan;
    const start = this.#starts;
    this.#starts += 1;
    const { name } = this;
    const historyPath = this.#historyPath(start);
    const { notePath } = this;
    // The process may be killed before it gets as far as opening them.
    for (const path of [historyPath, notePath]) writeFileSync(path, '');
    const own: StartSettings = {
      name,
      historyPath,
      notePath,
      seed: seed + index * 10_000 + start * 100,
    };
    const program = new Program<Command>(script, { ...settings, ...own }, edits);
    program.child.once('exit', (code, signal) => {
      if (code === 0 || signal === 'SIGKILL') return;
      this.failures.push(`${name} ended with ${code ?? signal}: ${program.output}`);
    });
    return program;
  }

  #historyPath(start: number): string {
    return join(this.#plan.historyFolder, `worker-${this.#plan.index}-${start}.jsonl`);
  }
}
