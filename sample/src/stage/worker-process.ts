import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { BookingResult } from './booking-result.ts';
import { endProcess } from './end-process.ts';
import type { StageEvent, WorkerState } from './stage-event.ts';
import { guardStoppedProcess } from './wake-up-guard.ts';
import type {
  BookingReply,
  InspectReply,
  ReportedError,
  WorkerCommand,
  WorkerMessage,
} from './worker-messages.ts';

interface BookingOptions {
  /** Booking with the fence in the database, or with the lock alone. @default true */
  readonly fenced?: boolean;
  /** The payment provider's answer stays out until {@link WorkerProcess.letAnswerThrough}. @default false */
  readonly holdAnswer?: boolean;
}

interface Waiting {
  readonly resolve: (value: BookingReply | InspectReply) => void;
  readonly reject: (error: unknown) => void;
}

/** The worker's answer was an error. */
class WorkerError extends Error {
  constructor(readonly reported: ReportedError) {
    super(`${reported.name}: ${reported.message}`);
  }
}

/** A Nest application in a process of its own, as the conductor sees it. */
export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #ready: Promise<void>;
  #failure: Error | undefined;
  #lastId = 0;
  #letGo: (() => void) | undefined;
  #state: WorkerState = 'working';

  constructor(
    /** Number from 1. */
    readonly number: number,
    environment: Readonly<Record<string, string>>,
    private readonly tell: (event: StageEvent) => void,
  ) {
    this.#child = fork(fileURLToPath(new URL('../worker.js', import.meta.url)), {
      env: { ...process.env, ...environment },
    });
    this.#ready = new Promise((resolve, reject) => {
      this.#child.on('message', (message: WorkerMessage) => {
        if (message.type === 'ready') resolve();
        else this.#receive(message);
      });
      this.#child.on('exit', (code, signal) => {
        this.#failure ??= new Error(`Worker ${number} ended (${signal ?? `exit code ${code}`}).`);
        reject(this.#failure);
        this.#letGo?.();
        for (const waiting of this.#waiting.values()) waiting.reject(this.#failure);
        this.#waiting.clear();
        this.#became('gone');
      });
    });
    // Callers of ready() see the rejection; without one it must not count as unhandled.
    this.#ready.catch(() => undefined);
  }

  get state(): WorkerState {
    return this.#state;
  }

  /** Resolves when the application has started. @throws when it could not. */
  ready(): Promise<void> {
    return this.#ready;
  }

  /** Asks for a booking. Never rejects for a booking that failed, only for a worker that is gone. */
  async book(
    seatId: string,
    customer: string,
    { fenced = true, holdAnswer = false }: BookingOptions = {},
  ): Promise<BookingResult> {
    const booking = { worker: this.number, seatId, customer };
    let result: BookingResult;
    try {
      const { outcome } = (await this.#ask((id) => ({
        type: 'book',
        id,
        seatId,
        customer,
        fenced,
        holdAnswer,
      }))) as BookingReply;
      result = { ...booking, outcome };
    } catch (error) {
      if (!(error instanceof WorkerError)) throw error;
      result = { ...booking, outcome: 'failed', error: error.reported };
    }
    this.tell({ type: 'booking-ended', result });
    return result;
  }

  /** Answer of the nodes about a lock. */
  async inspect(key: string): Promise<InspectReply> {
    return (await this.#ask((id) => ({ type: 'inspect', id, key }))) as InspectReply;
  }

  letAnswerThrough(customer: string): void {
    this.#send({ type: 'let-answer-through', customer });
  }

  /** SIGSTOP: the process stands still between two instructions, like one whose machine is paused. */
  stop(): void {
    if (this.#child.pid !== undefined) this.#letGo = guardStoppedProcess(this.#child.pid);
    this.#child.kill('SIGSTOP');
    this.#became('stopped');
  }

  /** SIGCONT. */
  wakeUp(): void {
    this.#child.kill('SIGCONT');
    this.#letGo?.();
    if (this.#state === 'stopped') this.#became('working');
  }

  /** Shuts the application down. @returns whether the process then ended by itself and without an error. */
  async shutDown(): Promise<boolean> {
    const endedByItself = await endProcess(this.#child, () => this.#send({ type: 'shut-down' }));
    return endedByItself && this.#child.exitCode === 0;
  }

  /** Ends the process at once, stopped or not. */
  async kill(): Promise<void> {
    await endProcess(this.#child, () => this.#child.kill('SIGKILL'));
  }

  #became(state: WorkerState): void {
    this.#state = state;
    this.tell({ type: 'worker', worker: this.number, state });
  }

  #receive(message: Exclude<WorkerMessage, { readonly type: 'ready' }>): void {
    switch (message.type) {
      case 'reply':
        return this.#settle(message.id, ({ resolve }) => resolve(message.value));
      case 'error-reply':
        return this.#settle(message.id, ({ reject }) => reject(new WorkerError(message.error)));
      case 'step':
        return this.tell({ type: 'step', worker: this.number, step: message.step });
      case 'logged':
        return this.tell({ type: 'logged', worker: this.number, text: message.text });
      case 'lock':
        return this.tell({ type: 'lock', worker: this.number, event: message.event });
      case 'failed':
        this.#failure = new Error(`Worker ${this.number} failed: ${message.error.message}`);
    }
  }

  #ask(command: (id: number) => WorkerCommand): Promise<BookingReply | InspectReply> {
    if (this.#failure) return Promise.reject(this.#failure);
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#send(command(id));
    });
  }

  #settle(id: number, settle: (waiting: Waiting) => void): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (waiting) settle(waiting);
  }

  /** A channel that is closed means a process that is gone, which its exit tells. */
  #send(command: WorkerCommand): void {
    if (this.#child.connected) this.#child.send(command, () => undefined);
  }
}
