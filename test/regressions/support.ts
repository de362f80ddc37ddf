import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { LockEvent } from '../../lib/core/events.ts';
import type { Cluster } from '../unit/core/support/cluster.ts';

/** How a call ended: `granted`, `null`, or the code of its error. */
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

/** Bytes in use after everything unreachable was collected. */
export async function settledHeapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let pass = 0; pass < 4; pass += 1) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    collect();
  }
  return process.memoryUsage().heapUsed;
}

interface Target {
  readonly host: string;
  readonly port: number;
}

interface Flow {
  readonly sockets: readonly Socket[];
  subscribes: boolean;
}

/**
 * A way to a server on which connections can be forgotten, as address translation and load balancers do: they stay open,
 * and nothing passes them. New connections work.
 */
export class ForgetfulPath {
  /** How many have been made. */
  connections = 0;
  readonly #server: Server;
  readonly #flows = new Set<Flow>();

  private constructor(
    server: Server,
    /** Where new connections lead to. */
    public target: Target,
  ) {
    this.#server = server;
  }

  /** @param delayMs how much later everything arrives, in each direction */
  static async open(target: Target, delayMs = 0) {
    const server = createServer((client) => {
      const { port, host } = path.target;
      path.#accept(client, connect(port, host), delayMs);
    });
    const path = new ForgetfulPath(server, target);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return path;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Forgets the connections of now: all of them, or those on which a client subscribed. */
  forget(which: 'all' | 'subscribers'): void {
    for (const { sockets, subscribes } of this.#flows) {
      if (which === 'subscribers' && !subscribes) continue;
      for (const socket of sockets) socket.unpipe().removeAllListeners('close').resume();
    }
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const { sockets } of this.#flows) for (const socket of sockets) socket.destroy();
    await closed;
  }

  #accept(client: Socket, upstream: Socket, delayMs: number): void {
    this.connections += 1;
    const flow: Flow = { sockets: [client, upstream], subscribes: false };
    this.#flows.add(flow);
    client.on('data', (data) => (flow.subscribes ||= /subscribe/i.test(String(data))));
    client.on('error', () => undefined).on('close', () => upstream.destroy());
    upstream.on('error', () => undefined).on('close', () => client.destroy());
    client.pipe(later(delayMs)).pipe(upstream).pipe(later(delayMs)).pipe(client);
  }
}

function later(delayMs: number): PassThrough {
  const stream = new PassThrough();
  if (delayMs > 0)
    stream._transform = (chunk, _encoding, done) => {
      setTimeout(() => stream.push(chunk), delayMs);
      done();
    };
  return stream;
}

/** Draws from the chance of a cluster, so that a seed repeats a whole run. */
export class Draw {
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** An integer from 0 to `limit` - 1. */
  below(limit: number): number {
    return Math.floor(this.#cluster.environment.random.fraction() * limit);
  }

  chance(probability: number): boolean {
    return this.#cluster.environment.random.fraction() < probability;
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }

  /** So many of the items, each once, sorted. */
  some(items: readonly string[], count: number): string[] {
    const rest = [...items];
    return Array.from({ length: count }, () => rest.splice(this.below(rest.length), 1)[0]!).sort();
  }
}
