import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';

const LOADERS = [
  './test/support/typescript-loader.mjs',
  './test/simulation/mutants/mutant-loader.mjs',
];

/** An exact change to one file of the code under test; the text must be there exactly once. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

interface Waiting {
  readonly resolve: (answer: any) => void;
  readonly reject: (error: Error) => void;
}

/** Message between a program and its parent; the answer with id 0 is what a program says first. */
type Message =
  | { readonly id: number; readonly question: object }
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly error: string };

/** Runs our TypeScript in a process of its own, which answers questions and whose last words are kept. */
export class Program<Question extends object = never> {
  readonly child: ChildProcess;
  /** Resolves when the process is gone and everything that it said was received. */
  readonly closed: Promise<void>;
  readonly #waiting = new Map<number, Waiting>();
  readonly #first: Promise<unknown>;
  #questions = 0;
  #output = '';
  #end: Error | undefined;

  /**
   * @param settings reach the script as JSON in its first argument
   * @param edits changes to the code that it runs
   * @param environment variables besides those of this process
   */
  constructor(
    script: string,
    settings: object,
    edits: readonly Edit[] = [],
    environment: NodeJS.ProcessEnv = {},
  ) {
    const loaders = edits.length > 0 ? LOADERS : LOADERS.slice(0, 1);
    this.child = fork(script, [JSON.stringify(settings)], {
      execArgv: [
        '--disable-warning=ExperimentalWarning',
        ...loaders.flatMap((loader) => ['--import', loader]),
      ],
      // The options of this process are left out: they are jest's.
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        SIMULATED_EDITS: JSON.stringify(edits),
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    const collect = (text: Buffer): void => {
      this.#output = (this.#output + text.toString()).slice(-4_000);
    };
    this.child.stdout?.on('data', collect);
    this.child.stderr?.on('data', collect);
    this.child.on('message', (message: Message) => this.#receive(message));
    // It is the event `exit`, not `close`, which does not come after a disconnect from this side.
    const ends = [once(this.child, 'exit'), closed(this.child.stdout!), closed(this.child.stderr!)];
    this.closed = Promise.all(ends).then(
      () => this.#ended(),
      (error: Error) => this.#ended(error),
    );
    this.#first = new Promise((resolve, reject) => this.#waiting.set(0, { resolve, reject }));
    this.#first.catch(() => undefined);
  }

  /** Everything that it printed, or the end of it. */
  get output(): string {
    return this.#output;
  }

  /** The end of the process, with its last words; undefined while it runs. */
  get end(): Error | undefined {
    return this.#end;
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** First message of the process. Rejects, like every question, with its last words when it has ended. */
  first<Answer>(): Promise<Answer> {
    return this.#first as Promise<Answer>;
  }

  ask<Answer>(question: Question): Promise<Answer> {
    if (this.#end) return Promise.reject(this.#end);
    const id = (this.#questions += 1);
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      // If the process is gone, its end rejects this.
      this.child.send({ id, question }, () => undefined);
    });
  }

  /** Ends it whatever its state. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.closed;
  }

  /** Disconnects, upon which it ends by itself. Resolves with false when it had to be killed after `limitMs`. */
  async finish(limitMs: number): Promise<boolean> {
    let isInTime = true;
    const limit = setTimeout(() => (isInTime = !this.child.kill('SIGKILL')), limitMs);
    if (this.child.connected) this.child.disconnect();
    await this.closed;
    clearTimeout(limit);
    return isInTime;
  }

  #receive(message: Message): void {
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ('error' in message) waiting?.reject(new Error(message.error));
    else if ('answer' in message) waiting?.resolve(message.answer);
  }

  #ended(startError?: Error): void {
    const { exitCode, signalCode, spawnfile, spawnargs } = this.child;
    const name = spawnargs.find((argument) => argument.endsWith('.ts')) ?? spawnfile;
    const how = startError?.message ?? exitCode ?? signalCode;
    this.#end = new Error(`${name} ended with ${how}: ${this.#output}`);
    for (const { reject } of this.#waiting.values()) reject(this.#end);
    this.#waiting.clear();
  }
}

function closed(stream: Readable): Promise<unknown> {
  return once(stream, 'close');
}

/** Reads, in the process of a {@link Program}, what its parent gave it. */
export function programSettings<Settings>(): Settings {
  return JSON.parse(process.argv[2]!) as Settings;
}

/** Says, in the process of a {@link Program}, that it is ready, and answers what its parent asks from now on. */
export function answerQuestions<Question>(
  first: unknown,
  answer: (question: Question) => unknown,
): void {
  // The parent may be gone; how this process ends then is its own affair.
  const send = (message: Message): void =>
    void process.send?.(message, undefined, undefined, () => undefined);
  process.on('message', ({ id, question }: { id: number; question: Question }) => {
    Promise.resolve()
      .then(() => answer(question))
      .then(
        (said) => send({ id, answer: said ?? null }),
        (error: unknown) => send({ id, error: String(error) }),
      );
  });
  send({ id: 0, answer: first ?? null });
}
