import type { ServerResponse } from 'node:http';
import type { ShowLog } from '../log.ts';

/** Events come in bursts; a state per burst is enough for eyes. */
const INTERVAL_MS = 100;

/** The state again, also when nothing happens: it finds connections that are broken, and the page finds a server that is stopped. */
const HEARTBEAT_MS = 5_000;

/** Sends the whole state to every page that listens, whenever something happened. A page that came late misses nothing. */
export class StateStream {
  readonly #pages = new Set<ServerResponse>();
  readonly #heartbeat = setInterval(() => this.#send(), HEARTBEAT_MS);
  #sending: NodeJS.Timeout | undefined;

  constructor(
    log: ShowLog,
    private readonly state: object,
  ) {
    log.subscribe(() => (this.#sending ??= setTimeout(() => this.#send(), INTERVAL_MS)));
  }

  open(page: ServerResponse): void {
    page.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    this.#pages.add(page);
    page.on('close', () => this.#pages.delete(page));
    page.on('error', () => this.#pages.delete(page));
    page.write(`retry: 1000\n\n${this.#message()}`);
  }

  close(): void {
    clearInterval(this.#heartbeat);
    clearTimeout(this.#sending);
    for (const page of this.#pages) page.end();
  }

  /** A page that does not read gets no queue: the next state holds all of this one. */
  #send(): void {
    this.#sending = undefined;
    for (const page of this.#pages) if (!page.writableNeedDrain) page.write(this.#message());
  }

  #message(): string {
    return `data: ${JSON.stringify(this.state)}\n\n`;
  }
}
