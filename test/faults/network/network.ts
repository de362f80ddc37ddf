import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { LinkCounts } from './link-counts.ts';
import type { LinkMode } from './link-mode.ts';
import type {
  LinkSelection,
  NetworkMessage,
  NetworkOrder,
  NetworkSettings,
} from './network-command.ts';

interface Waiting {
  readonly resolve: (result: any) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The network between some clients and some servers: a link of its own for each pair, so that it can fail for a client,
 * for a server, or between two of them. The links live in a process of their own: when this one stalls, the network
 * doesn't.
 *
 * Every method rejects when that process has ended, with what it said last.
 */
export class Network {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #closed: Promise<void>;
  readonly #listening: Promise<void>;
  #ports: readonly (readonly number[])[] = [];
  #ids = 0;
  #output = '';
  #isClosing = false;
  #end: Error | undefined;

  private constructor({ targets, clients, seed }: NetworkSettings) {
    // Targets may be servers, with more to them.
    const settings: NetworkSettings = {
      targets: targets.map(({ host, port }) => ({ host, port })),
      clients,
      seed,
    };
    const loader = new URL('../../support/typescript-loader.mjs', import.meta.url);
    const script = fileURLToPath(new URL('network-process.ts', import.meta.url));
    // Without the options of this process: they are jest's.
    this.#child = fork(script, [JSON.stringify(settings)], {
      execArgv: ['--import', loader.href],
      env: { ...process.env, NODE_OPTIONS: '' },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    const collect = (text: Buffer): void => {
      this.#output = (this.#output + text.toString()).slice(-4_000);
    };
    this.#child.stdout?.on('data', collect);
    this.#child.stderr?.on('data', collect);
    this.#child.on('message', (message: NetworkMessage) => this.#hear(message));
    this.#closed = new Promise((resolve) => {
      const ended = (): void => {
        this.#ended();
        resolve();
      };
      this.#child.once('close', ended);
      // It could not be started.
      this.#child.once('error', (error) => {
        this.#output += error.message;
        ended();
      });
    });
    // The first answer, to nothing that was asked.
    this.#listening = new Promise((resolve, reject) => this.#waiting.set(0, { resolve, reject }));
  }

  /**
   * Starts a network in which everything passes.
   * @param settings `targets`: the servers; they may be down, and come back on the same port. `seed`: decides where a
   * mode leaves something to chance
   */
  static async start(settings: NetworkSettings): Promise<Network> {
    const network = new Network(settings);
    await network.#listening;
    return network;
  }

  /** Process id of the network. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Where `client` reaches `node`; stays the same. */
  url(client: number, node: number): string {
    const port = this.#ports[client]?.[node];
    if (port === undefined) throw new RangeError(`no link of client ${client} to node ${node}`);
    return `redis://127.0.0.1:${port}`;
  }

  /**
   * Changes the mode of the links, and calls off what `resetAfterRequest` has not met yet. Resolves when all of them have
   * it.
   */
  async set(mode: LinkMode, selection: LinkSelection = {}): Promise<void> {
    await this.#ask({ type: 'set', mode, selection });
  }

  /** Resets the connections that are open now. */
  async resetConnections(selection: LinkSelection = {}): Promise<void> {
    await this.#ask({ type: 'reset-connections', selection });
  }

  /** On each of the links: the next request is executed, its reply lost, its connection reset. */
  async resetAfterRequest(selection: LinkSelection = {}): Promise<void> {
    await this.#ask({ type: 'reset-after-request', selection });
  }

  /** What happened so far, summed over the links. */
  counts(selection: LinkSelection = {}): Promise<LinkCounts> {
    return this.#ask({ type: 'count', selection });
  }

  /** Ends the process and with it all connections. May be called twice. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#child.kill('SIGKILL');
    await this.#closed;
  }

  #ask<Result>(order: NetworkOrder): Promise<Result> {
    if (this.#end) return Promise.reject(this.#end);
    this.#ids += 1;
    const id = this.#ids;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      // Should it be gone, the end of the process is what tells.
      this.#child.send({ ...order, id }, () => undefined);
    });
  }

  #hear(message: NetworkMessage): void {
    const id = message.type === 'listening' ? 0 : message.id;
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (message.type === 'listening') this.#ports = message.ports;
    if (message.type === 'failed') waiting?.reject(new Error(message.message));
    else waiting?.resolve(message.type === 'done' ? message.result : undefined);
  }

  #ended(): void {
    const { exitCode, signalCode } = this.#child;
    this.#end = new Error(
      this.#isClosing
        ? 'the network was closed'
        : `the process of the network ended with ${exitCode ?? signalCode}: ${this.#output}`,
    );
    for (const { reject } of this.#waiting.values()) reject(this.#end);
    this.#waiting.clear();
  }
}
