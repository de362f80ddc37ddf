import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { LockEvent } from '../../lib/core/events.ts';
import type { Cluster } from '../unit/core/support/cluster.ts';

/** End of a call: `granted`, `null`, or the code of its error. */
export interface Outcome {
  readonly code: string;
  readonly tookMs: number;
  readonly error: unknown;
}

/** Waits for the end of an acquire; `nowMs` is the clock that counts. */
export async function outcomeOf(acquired: Promise<unknown>, nowMs: () => number): Promise<Outcome> {
  const startedAtMs = nowMs();
  try {
    const lock = await acquired;
    const code = lock === null ? 'null' : 'granted';
    return { code, tookMs: nowMs() - startedAtMs, error: undefined };
  } catch (error) {
    const { code = String(error) } = error as { code?: string };
    return { code, tookMs: nowMs() - startedAtMs, error };
  }
}

/** The outcomes of these calls of a cluster, in virtual time. */
export function outcomesOf(
  cluster: Cluster,
  calls: readonly Promise<unknown>[],
): Promise<Outcome[]> {
  const outcomes = calls.map((call) => outcomeOf(call, () => cluster.nowMs));
  return cluster.settle(Promise.all(outcomes));
}

/** Sleeps in the time of the cluster. */
export function sleepIn(cluster: Cluster, ms: number): Promise<void> {
  return new Promise((resolve) => cluster.environment.timers.set(resolve, ms));
}

export function eventsOf<Type extends LockEvent['type']>(
  events: readonly LockEvent[],
  type: Type,
): Extract<LockEvent, { readonly type: Type }>[] {
  return events.filter(
    (event): event is Extract<LockEvent, { readonly type: Type }> => event.type === type,
  );
}

/** Keeps the event loop busy, as a long computation does. */
export function blockEventLoop(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

interface Target {
  readonly host: string;
  readonly port: number;
}

/**
 * A way to a server on which connections can be forgotten, as address translation and load balancers do: they stay open,
 * and nothing passes them. New connections work.
 */
export class ForgetfulPath {
  /** Number of all that have been made. */
  connections = 0;
  readonly #server: Server;
  readonly #flows = new Set<readonly Socket[]>();

  private constructor(
    server: Server,
    /** Destination of new connections. */
    public target: Target,
  ) {
    this.#server = server;
  }

  static async open(target: Target) {
    const server = createServer((client) => {
      const { port, host } = path.target;
      path.#accept(client, connect(port, host));
    });
    const path = new ForgetfulPath(server, target);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return path;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Forgets the connections of now. */
  forget(): void {
    for (const sockets of this.#flows) {
      for (const socket of sockets) socket.unpipe().removeAllListeners('close').resume();
    }
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const sockets of this.#flows) for (const socket of sockets) socket.destroy();
    await closed;
  }

  #accept(client: Socket, upstream: Socket): void {
    this.connections += 1;
    this.#flows.add([client, upstream]);
    client.on('error', () => undefined).on('close', () => upstream.destroy());
    upstream.on('error', () => undefined).on('close', () => client.destroy());
    client.pipe(upstream).pipe(client);
  }
}
