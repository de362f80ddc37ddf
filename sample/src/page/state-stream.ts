import type { ServerResponse } from 'node:http';
import { INITIAL_SALE_STATE, saleAfter, type SaleState } from '../sale/sale-state.ts';
import type { StageLog } from '../stage/stage-log.ts';

/** Events come in bursts; a state per burst is enough for eyes. */
const INTERVAL_MS = 100;

/** The state again, also when nothing happens: it finds connections that are broken, and the page finds a server that is stopped. */
const HEARTBEAT_MS = 5_000;

/** State as the page gets it, and when it was. */
export interface Snapshot extends SaleState {
  /** Ms since the start. */
  readonly atMs: number;
}

/** Follows the log, and sends the whole state to every page that listens. A page that came late or was away misses nothing. */
export class StateStream {
  readonly #listeners = new Set<ServerResponse>();
  readonly #unsubscribe: () => void;
  readonly #heartbeat: NodeJS.Timeout;
  #state: SaleState = INITIAL_SALE_STATE;
  #sending: NodeJS.Timeout | undefined;

  constructor(private readonly log: StageLog) {
    for (const record of log.records) this.#state = saleAfter(this.#state, record);
    this.#unsubscribe = log.subscribe((record) => {
      this.#state = saleAfter(this.#state, record);
      this.#sending ??= setTimeout(() => this.#send(), INTERVAL_MS);
    });
    this.#heartbeat = setInterval(() => this.#write(this.#message()), HEARTBEAT_MS);
  }

  get listenerCount(): number {
    return this.#listeners.size;
  }

  /** Answers with an event stream that ends when the page leaves, or with {@link close}. */
  open(response: ServerResponse): void {
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
    });
    this.#listeners.add(response);
    response.on('close', () => this.#listeners.delete(response));
    response.on('error', () => this.#listeners.delete(response));
    response.write(`retry: 1000\n\n${this.#message()}`);
  }

  close(): void {
    this.#unsubscribe();
    clearTimeout(this.#sending);
    clearInterval(this.#heartbeat);
    for (const response of this.#listeners) response.end();
    this.#listeners.clear();
  }

  #send(): void {
    this.#sending = undefined;
    this.#write(this.#message());
  }

  /** A client that does not read gets no queue: the next state holds all of this one. */
  #write(text: string): void {
    for (const response of this.#listeners) {
      if (!response.writableNeedDrain) response.write(text);
    }
  }

  #message(): string {
    const snapshot: Snapshot = { ...this.#state, atMs: this.log.nowMs };
    return `data: ${JSON.stringify(snapshot)}\n\n`;
  }
}
