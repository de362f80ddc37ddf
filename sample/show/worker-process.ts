import { fork, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Result, ShowLog, WorkerState } from './log.ts';
import type { StepName } from './seats.ts';
import type { Command, Message, Outcome } from './worker.ts';

/** How long a worker that was asked to end may take before it is killed. */
const PATIENCE_MS = 10_000;

/** A Nest application in a process of its own, as the conductor sees it. */
export class WorkerProcess {
  state: WorkerState = 'working';
  readonly #child: ChildProcess;
  /** Rejects when the application can't start. */
  readonly ready: Promise<void>;
  readonly #open = new Map<number, (outcome: Outcome) => void>();
  #lastId = 0;
  #letGo: (() => void) | undefined;

  constructor(
    /** From 1. */
    readonly number: number,
    environment: Readonly<Record<string, string>>,
    private readonly log: ShowLog,
  ) {
    const child = fork(fileURLToPath(new URL('worker.ts', import.meta.url)), {
      env: { ...process.env, ...environment },
    });
    this.#child = child;
    this.ready = new Promise((resolve, reject) => {
      child.on('message', (message: Message) => {
        if (message.type === 'ready') resolve();
        else if (message.type === 'step')
          log.append({ type: 'step', worker: number, ...message.step });
        else if (message.type === 'ended') this.#open.get(message.id)?.(message);
        else reject(new Error(`Worker ${number} failed: ${message.message}`));
      });
      child.on('exit', (code, signal) => {
        const message = `Worker ${number} ended (${signal ?? `exit code ${code}`}).`;
        reject(new Error(message));
        this.#became('gone');
        for (const end of this.#open.values()) end({ outcome: 'failed', code: 'GONE', message });
      });
    });
    // Who waits for it sees the rejection, and nobody has to.
    this.ready.catch(() => undefined);
  }

  /**
   * Asks for a booking, with the fence or with the lock alone. Never rejects: a worker that is gone is a failed booking.
   * @param options `holdAfter`: the step at which the booking stays until {@link go}
   */
  async book(
    seat: string,
    customer: string,
    { fenced = true, holdAfter }: { fenced?: boolean; holdAfter?: StepName } = {},
  ): Promise<Result> {
    const id = (this.#lastId += 1);
    const outcome = await new Promise<Outcome>((resolve) => {
      this.#open.set(id, resolve);
      if (this.state === 'gone')
        resolve({ outcome: 'failed', code: 'GONE', message: 'It has ended.' });
      this.#send({ type: 'book', id, seat, customer, fenced, holdAfter });
    });
    this.#open.delete(id);
    const { outcome: how, code, message } = outcome;
    const result = { worker: this.number, seat, customer, outcome: how, code, message };
    this.log.append({ type: 'ended', ...result });
    return result;
  }

  /** Lets the booking of this customer go on. */
  go(customer: string): void {
    this.#send({ type: 'go', customer });
  }

  /** SIGSTOP: the process stands still between two instructions, like one whose machine is paused. */
  stop(): void {
    this.#letGo = guardStoppedProcess(this.#child.pid!);
    this.#child.kill('SIGSTOP');
    this.#became('stopped');
  }

  /** SIGCONT. */
  wakeUp(): void {
    this.#child.kill('SIGCONT');
    this.#letGo?.();
    if (this.state === 'stopped') this.#became('working');
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    if (this.state === 'gone') return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }

  /** Shuts the application down. @returns whether the process then ended by itself and without an error. */
  async shutDown(): Promise<boolean> {
    if (this.state !== 'gone') {
      const gone = once(this.#child, 'exit');
      const killer = setTimeout(() => this.#child.kill('SIGKILL'), PATIENCE_MS);
      this.#send({ type: 'shut-down' });
      await gone;
      clearTimeout(killer);
    }
    return this.#child.exitCode === 0;
  }

  #became(state: WorkerState): void {
    this.state = state;
    this.log.append({ type: 'worker', worker: this.number, state });
    if (state === 'gone') this.#letGo?.();
  }

  /** A channel that is closed means a process that is gone, which its exit tells. */
  #send(command: Command): void {
    if (this.#child.connected) this.#child.send(command, () => undefined);
  }
}

/**
 * A stopped process can't notice that the conductor was killed, and would stay stopped forever: a shell sends it SIGCONT when
 * this process lets go of the shell, whatever ended it.
 * @returns lets go
 */
function guardStoppedProcess(pid: number): () => void {
  const guard = spawn('/bin/sh', ['-c', 'read -r _; kill -CONT "$0" 2>/dev/null', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Ctrl-C is meant for the conductor.
    detached: true,
  });
  guard.unref();
  guard.on('error', () => undefined);
  guard.stdin.on('error', () => undefined);
  return () => guard.stdin.end();
}
