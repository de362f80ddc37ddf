import type { Environment, TimerHandle } from '../core/environment.ts';
import { hasMethods } from '../fencing/fence-arguments.ts';
import type { Pglite } from '../fencing/drivers/pglite-fence.ts';

/** A connection of its own to the database itself, such as a `Client` of `pg`: behind a pooler nothing reaches a listener. */
export interface ListeningClient {
  connect(): Promise<unknown>;
  query(sql: string): Promise<unknown>;
  on(event: 'notification', listener: (message: { readonly payload?: string }) => void): unknown;
  on(event: 'error' | 'end', listener: (error?: Error) => void): unknown;
  end(): Promise<unknown>;
  /** Lets the process end although the other side has not said goodbye. */
  unref?(): void;
}

export interface TurnsListener {
  heard(payload: string): void;
  listening(): void;
  /** Runs a statement on another connection. */
  ask(sql: string, parameters: readonly unknown[]): Promise<unknown>;
}

/** The notification by which a listener proves that it hears. */
const PROOF = 'proof';
const PROVE = `SELECT pg_notify($1, '${PROOF}')`;
const PAUSE_MS = 1_000;

/**
 * Hears that it is the turn of this process. That is a hint and never a fact: who hears nothing asks again after a moment. It counts as
 * listening only while a notification that it sent to itself through the other connection has come back. A network that forgets a
 * connection on which nothing is said tells nobody, so that proof is asked for again and again.
 */
export class Turns {
  /** Whether notifications arrive. */
  isListening = false;
  readonly #environment: Environment;
  /** A PGlite tells its own process. */
  readonly #source: (() => ListeningClient) | Pglite<any> | undefined;
  readonly #listener: TurnsListener;
  /** Whether the last proof that was asked for on this connection has come back. */
  #isProven = false;
  #channel = '';
  #end: (() => unknown) | undefined;
  /** Replaces the present connection; undefined where a PGlite tells its own process. */
  #over: (() => void) | undefined;
  #timer: TimerHandle;
  #isClosed = false;

  constructor(
    environment: Environment,
    source: (() => ListeningClient) | Pglite<any> | undefined,
    listener: TurnsListener,
  ) {
    this.#environment = environment;
    this.#source = source;
    this.#listener = listener;
  }

  open(channel: string): void {
    if (this.#channel !== '') return;
    this.#channel = channel;
    void this.#listen();
  }

  /** Asks for another proof; where the last one has not come back, the connection is replaced. */
  proveAgain(): void {
    if (this.#over === undefined) return;
    if (!this.#isProven) return this.#over();
    this.#isProven = false;
    // What could not be asked for proves nothing.
    this.#prove().catch(() => (this.#isProven = true));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.isListening = false;
    const { timers } = this.#environment;
    timers.clear(this.#timer);
    // Of a connection that the network forgot there is no end to wait for.
    const patience = new Promise<void>((resolve) => {
      this.#timer = timers.set(resolve, PAUSE_MS);
    });
    try {
      await Promise.race([this.#end?.(), patience]);
    } catch {
      // It had ended.
    }
    timers.clear(this.#timer);
  }

  async #listen(): Promise<void> {
    const source = this.#source;
    let isOver = false;
    const over = (): void => {
      if (isOver) return;
      isOver = true;
      this.isListening = false;
      this.#again();
    };
    try {
      if (typeof source === 'function') await this.#listenOn(source(), over);
      else if (source !== undefined) await this.#listenInProcess(source);
    } catch {
      // A client that can't be made or connected is tried again; the process finds its turns by asking until then.
      over();
    }
  }

  #prove(): Promise<unknown> {
    return this.#listener.ask(PROVE, [this.#channel]);
  }

  async #listenInProcess(pglite: Pglite<any>): Promise<void> {
    const end = await pglite.listen!(`"${this.#channel}"`, (payload) => this.#received(payload));
    this.#end = end;
    if (this.#isClosed) await end();
    else await this.#prove();
  }

  async #listenOn(client: ListeningClient, over: () => void): Promise<void> {
    if (!hasMethods(client, ['connect', 'query', 'on', 'end'])) {
      // It would be no client the next time, either.
      this.#isClosed = true;
      const needs =
        "The option 'listen' of postgresNode must return a new client, such as () => new Client({ connectionString }) of pg, and no promise. Without it, this process asks for its turn.";
      return process.emitWarning(needs);
    }
    this.#over = over;
    // A connection that the network forgets while it is made is replaced as well, after the time of a whole proof.
    this.#isProven = true;
    this.#end = () => {
      const ending = client.end();
      client.unref?.();
      return ending;
    };
    client.on('error', over);
    client.on('end', over);
    client.on('notification', ({ payload = '' }) => this.#received(payload));
    await client.connect();
    await client.query(`LISTEN "${this.#channel}"`);
    if (!this.#isClosed) await this.#prove();
  }

  #received(payload: string): void {
    if (payload !== PROOF) return this.#listener.heard(payload);
    this.#isProven = true;
    if (this.isListening || this.#isClosed) return;
    this.isListening = true;
    this.#listener.listening();
  }

  #again(): void {
    if (this.#isClosed) return;
    const { timers, random } = this.#environment;
    timers.clear(this.#timer);
    const end = this.#end;
    this.#end = undefined;
    // What is left of it must not keep a connection.
    Promise.resolve(end?.()).catch(() => undefined);
    const pauseMs = PAUSE_MS * (0.5 + random.fraction() / 2);
    this.#timer = timers.set(() => void this.#listen(), pauseMs, true);
  }
}
