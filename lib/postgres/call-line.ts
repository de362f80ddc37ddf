import type { Environment } from '../core/environment.ts';
import type { NodeFailure } from '../core/nodes/lock-node.ts';
import { inModuleContext } from '../core/system-environment.ts';
import { isAboutValues, isAnswer } from '../fencing/sql/sql-error.ts';
import type { LockDatabase } from './lock-database.ts';
import { runFunction } from './schema.ts';

/** A command of the functions in the database: see `lockTables`. */
export interface Command {
  readonly do: string;
  readonly locks?: readonly string[];
  readonly [field: string]: unknown;
}

interface Call {
  readonly command: Command;
  readonly settle: (reply: any) => void;
}

/** Receives whether the database answers. */
export interface LineListener {
  up(): void;
  down(message: string): void;
  /** It does not answer still: why, for messages. */
  unreachable(message: string): void;
}

/** A batch keeps its rows until its commit, and others are told that these are busy. */
const MOST_AT_ONCE = 200;
const FIRST_PAUSE_MS = 50;
/** The patience with a connection in doubt; it doubles, so that a slow database is not taken for a dead connection. */
const FIRST_PATIENCE_MS = 100;
const LONGEST_PAUSE_MS = 1_000;

/**
 * Carries commands to the database in their order, one statement at a time: what is given while an answer is due leaves as the next
 * batch. So locks take one connection of the pool at most, and none while work under a lock runs.
 *
 * There is no connection of its own whose end it could hear of. A statement that fails without an answer, or has none in time, ends
 * what counts as one: everything due is settled as failed, and nothing is sent until the database has answered a question.
 */
export class CallLine {
  readonly #database: LockDatabase;
  readonly #environment: Environment;
  readonly #listener: LineListener;
  #state: 'closed' | 'down' | 'up' = 'closed';
  #silenceLimitMs = 0;
  #collected: Call[] = [];
  #isBusy = false;
  #isFlushDue = false;
  #wake: (() => void) | undefined;
  /** Why it is down, for messages. */
  #problem = 'not opened';

  constructor(database: LockDatabase, environment: Environment, listener: LineListener) {
    this.#database = database;
    this.#environment = environment;
    this.#listener = listener;
  }

  open(silenceLimitMs: number): void {
    this.#silenceLimitMs = silenceLimitMs;
    this.#state = 'down';
    this.#problem = 'the database has not answered yet';
    void this.#connect();
  }

  /** Collects a command. Its answer comes at once where the database is not there. */
  push(command: Command, settle: (reply: any) => void): void {
    if (this.#state === 'up') this.#collected.push({ command, settle });
    else settle(notSent(this.#problem));
  }

  flush(): void {
    this.#isFlushDue = true;
    if (!this.#isBusy) void this.#run();
  }

  /**
   * Throws away the connections of the pool that the network forgot, while a process that did not run for a while has no statement under
   * way: the first one would wait for its whole patience. What is collected meanwhile leaves after that.
   */
  async renew(): Promise<void> {
    if (this.#state !== 'up' || this.#isBusy) return;
    this.#isBusy = true;
    let patienceMs = FIRST_PATIENCE_MS;
    const answers = () => this.ask('SELECT 1 AS up', [], patienceMs).then(() => true, isAnswer);
    while (patienceMs < this.#silenceLimitMs && !(await answers())) patienceMs *= 2;
    await this.#run();
  }

  /** Asks any statement of its own, besides the line. */
  async ask(
    sql: string,
    parameters: readonly unknown[] = [],
    patienceMs = this.#silenceLimitMs,
  ): ReturnType<LockDatabase['query']> {
    let timer: unknown;
    const { timers } = this.#environment;
    const giveUp = () =>
      new Promise<never>((_resolve, reject) => {
        const silence = `no answer within ${patienceMs} ms`;
        timer = timers.set(() => reject(new Error(silence)), patienceMs, true);
      });
    try {
      return await inModuleContext(() => this.#database.query(sql, parameters, giveUp));
    } finally {
      timers.clear(timer);
    }
  }

  /** Writes what was collected, and resolves when its answers have come. */
  async close(): Promise<void> {
    const { timers } = this.#environment;
    let timer: unknown;
    // A pool whose connections are all taken may never give one.
    const patience = new Promise<void>((resolve) => {
      timer = timers.set(resolve, this.#silenceLimitMs);
    });
    if (this.#state === 'up') await Promise.race([this.#finish(), patience]);
    timers.clear(timer);
    this.#state = 'closed';
    this.#problem = 'closed';
    settleAll(this.#collected.splice(0), notSent('closed'));
  }

  async #finish(): Promise<void> {
    this.#isFlushDue = true;
    while (this.#isBusy) await new Promise<void>((resolve) => (this.#wake = resolve));
    await this.#run();
  }

  async #run(): Promise<void> {
    this.#isBusy = true;
    while (this.#state === 'up' && this.#isFlushDue && this.#collected.length > 0) {
      const batch = this.#collected.splice(0, MOST_AT_ONCE);
      this.#isFlushDue = this.#collected.length > 0;
      await this.#send(batch);
    }
    this.#isBusy = false;
    this.#wake?.();
  }

  async #send(batch: readonly Call[]): Promise<void> {
    if (this.#state !== 'up') return settleAll(batch, notSent(this.#problem));
    const sql = `SELECT ${runFunction(this.#database.schema)}(CAST($1 AS jsonb), CAST($2 AS integer)) AS replies`;
    const commands = JSON.stringify(batch.map(({ command }) => command));
    let answers: readonly unknown[];
    try {
      const [row] = await this.ask(sql, [commands, Math.ceil(this.#silenceLimitMs / 4)]);
      answers = JSON.parse(String(row?.['replies'])) as readonly unknown[];
    } catch (error) {
      const { message } = error as Error;
      const reason = isAnswer(error) ? 'error' : 'unreachable';
      // One of them has what the database can't store, and nothing was written: each is sent by itself.
      if (batch.length > 1 && isAboutValues(error)) {
        for (const call of batch) await this.#send([call]);
        return;
      }
      const reply: NodeFailure = { kind: 'failed', nothingWritten: false, reason, message };
      if (reason === 'unreachable') this.#lost(message);
      return settleAll(batch, reply);
    }
    for (const [index, { settle }] of batch.entries()) settle(answers[index]);
  }

  #lost(message: string): void {
    if (this.#state !== 'up') return;
    this.#state = 'down';
    this.#problem = message;
    settleAll(this.#collected.splice(0), notSent(message));
    this.#listener.down(message);
    void this.#connect();
  }

  /** Asks until the database answers. An error that it answers with is the business of the commands. */
  async #connect(): Promise<void> {
    const { timers, random } = this.#environment;
    for (let pauseMs = FIRST_PAUSE_MS; this.#state === 'down'; pauseMs *= 2) {
      try {
        await this.ask('SELECT 1 AS up');
        break;
      } catch (error) {
        if (this.#state !== 'down' || isAnswer(error)) break;
        this.#problem = (error as Error).message;
        this.#listener.unreachable(this.#problem);
      }
      const delayMs = Math.min(pauseMs, LONGEST_PAUSE_MS) * (0.5 + random.fraction() / 2);
      await new Promise<void>((resolve) => timers.set(resolve, delayMs, true));
    }
    if (this.#state !== 'down') return;
    this.#state = 'up';
    this.#listener.up();
  }
}

function settleAll(calls: readonly Call[], reply: NodeFailure): void {
  for (const { settle } of calls) settle(reply);
}

/** The failure of a command that was not sent. */
export function notSent(message: string): NodeFailure {
  return { kind: 'failed', nothingWritten: true, reason: 'unreachable', message };
}
