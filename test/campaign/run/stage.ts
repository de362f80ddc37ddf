import { setTimeout as sleep } from 'node:timers/promises';
import { historyNow } from '../../history/lock-history.ts';
import { processState } from '../../support/process-state.ts';
import type { RedisServer } from '../../support/redis-servers/redis-server.ts';
import { respRequest } from '../../support/redis-servers/resp-request.ts';
import type { SeededRandom } from '../../support/seeded-random.ts';
import type { FaultEvent, Mark, MarkEvent } from '../campaign-event.ts';
import type { LinkMode } from '../network/link-mode.ts';
import type { LinkSelection } from '../network/network-command.ts';
import type { Network } from '../network/network.ts';
import type { ErrorCondition } from '../servers/error-conditions.ts';
import { commandCalls } from '../servers/server-admin.ts';
import { KEY_PREFIX, type Cast } from './cast.ts';
import { findLeakedKeys } from './leaked-keys.ts';
import type { WorkerProcess } from './worker-process.ts';

const STOP_LIMIT_MS = 10_000;
/** Effects of these modes on connections are written down by the network, each time that it happens. */
const MOMENTARY_MODES: ReadonlySet<LinkMode['kind']> = new Set(['pass', 'truncate', 'garbage']);

type FaultFacts = Omit<FaultEvent, 'type' | 'process' | 'from' | 'at' | 'guard'>;

/** Target on which a schedule acts. Everything it does is in the history, with the time in which it had an effect. */
export class Stage {
  readonly servers: readonly RedisServer[];
  readonly network: Network;
  readonly workers: readonly WorkerProcess[];

  constructor(
    private readonly cast: Cast,
    readonly random: SeededRandom,
    readonly ttlMs: number,
  ) {
    ({ servers: this.servers, network: this.network, workers: this.workers } = cast);
  }

  /** Time for which a restarted server may not vote. The ttl of a lock is the longest there is. */
  get guardMs(): number {
    return this.ttlMs;
  }

  /** Returns when. */
  mark(mark: Mark): number {
    const at = historyNow();
    this.cast.file.append({ type: 'mark', process: 'campaign', at, ...mark } as MarkEvent);
    return at;
  }

  note(text: string): void {
    this.mark({ mark: 'note', text });
  }

  /** A promise of this schedule alone. */
  promise(isKept: boolean, message: string): void {
    if (isKept) return;
    const at = historyNow();
    const kind = 'broken-promise';
    this.cast.file.append({ type: 'problem', process: 'campaign', at, kind, message });
  }

  async pause(durationMs: number): Promise<void> {
    await sleep(durationMs);
  }

  /** The indices of `count` servers, by chance. */
  someServers(count: number): number[] {
    const left = [...this.#all];
    return Array.from({ length: count }, () => {
      const index = Math.floor(this.random.fraction() * left.length);
      return left.splice(index, 1)[0]!;
    });
  }

  /** Two pairs of servers that have none in common. */
  twoPairs(): number[][] {
    const order = this.someServers(4);
    return [order.slice(0, 2), order.slice(2)];
  }

  aWorker(): WorkerProcess {
    return this.random.pick(this.workers);
  }

  /** Links are in this mode for so long. */
  async links(mode: LinkMode, durationMs: number, selection: LinkSelection = {}): Promise<void> {
    const { nodes = this.#all, clients } = selection;
    const change = async (): Promise<void> => {
      await this.network.set(mode, selection);
      await this.pause(durationMs);
      await this.network.set({ kind: 'pass' }, selection);
    };
    if (MOMENTARY_MODES.has(mode.kind)) return change();
    const isOffline = mode.kind === 'refuse' || mode.kind === 'reset';
    const workers = clients?.map((client) => this.workers[client]!.place);
    const delivers = mode.kind === 'hold';
    return this.#fault({ what: JSON.stringify(mode), nodes, workers, isOffline, delivers }, change);
  }

  /** SIGSTOP for so long. */
  async freeze(nodes: readonly number[], durationMs: number): Promise<void> {
    await this.#fault({ what: 'frozen', nodes, delivers: true }, async () => {
      await this.#each(nodes, (server) => server.freeze());
      await this.pause(durationMs);
      await this.#each(nodes, (server) => server.resume());
    });
  }

  /** SIGKILL, and a new start after `downMs`. */
  async restart(
    nodes: readonly number[],
    { downMs = 0, keepData = false }: { downMs?: number; keepData?: boolean } = {},
  ): Promise<void> {
    await this.#fault({ what: 'restarted', nodes, isOffline: true }, async () => {
      await this.#each(nodes, (server) => server.kill());
      // The guard begins with the first join, and nobody joins a server that is down.
      const from = historyNow();
      await this.pause(downMs);
      await this.#each(nodes, (server) => server.restart({ keepData }));
      return { from, to: from + this.guardMs };
    });
  }

  /** FLUSHALL. */
  async flush(nodes: readonly number[]): Promise<void> {
    await this.#fault({ what: 'emptied', nodes }, async () => {
      // The first may have been joined again before the last was emptied.
      const to = historyNow() + this.guardMs;
      await this.#each(nodes, ({ host, port }) =>
        respRequest({ address: { host, port } }, ['FLUSHALL']),
      );
      return { from: historyNow(), to };
    });
  }

  /** Servers are in this state, for `durationMs` if they don't leave it by themselves. */
  async suffer(
    condition: ErrorCondition,
    nodes: readonly number[],
    durationMs: number,
  ): Promise<void> {
    const { name: what, isOffline = false, rejoins, beginsGuard, kind } = condition;
    const refuses = kind === 'refuses' && !isOffline;
    await this.#fault({ what, nodes, isOffline, rejoins, refuses }, async () => {
      const ends = await Promise.all(nodes.map((node) => condition.begin(this.servers[node]!)));
      const from = historyNow();
      await this.pause(durationMs);
      await Promise.all(ends.map((end) => end()));
      // Start of its guard depends on how quickly it loads.
      return beginsGuard ? { from, to: from } : undefined;
    });
  }

  /**
   * Sets how far the clocks of servers are from the real one. Locks end early or late, and far back in time a server finds
   * that it has to be joined again.
   */
  async moveClocks(nodes: readonly number[], offsetMs: number): Promise<void> {
    this.note(`the clocks of servers ${nodes.join()} are ${offsetMs} ms ahead`);
    const move = async (): Promise<void> => {
      const from = historyNow();
      await this.#each(nodes, (server) => server.moveClock(offsetMs));
      this.mark({ mark: 'clocks-moved', nodes, from });
    };
    if (offsetMs > -this.guardMs) return move();
    await this.#fault({ what: 'clock moved back', nodes }, async () => {
      await move();
      return { from: 0, to: 0 };
    });
  }

  /** SIGSTOP for so long. What it writes down of that itself is the only excuse. */
  async stopNetwork(durationMs: number): Promise<void> {
    process.kill(this.network.pid!, 'SIGSTOP');
    await this.pause(durationMs);
    process.kill(this.network.pid!, 'SIGCONT');
  }

  /** SIGSTOP for so long. */
  async stopWorker(worker: WorkerProcess, durationMs: number): Promise<void> {
    this.mark({ mark: 'worker-stopped', worker: worker.name });
    worker.freeze();
    await this.pause(durationMs);
    this.mark({ mark: 'worker-resumed', worker: worker.name });
    worker.resume();
  }

  /** The next holder stops its process exactly between asking its lock and writing, and goes on after `durationMs`. */
  async stopBetweenCheckAndWrite(worker: WorkerProcess, durationMs: number): Promise<void> {
    await worker.ask({ type: 'stop-between-check-and-write' });
    const deadline = historyNow() + STOP_LIMIT_MS;
    while (processState(worker.pid) !== 'T') {
      if (historyNow() > deadline) throw new Error(`${worker.name} had no lock to write under`);
      await sleep(5);
    }
    await this.pause(durationMs);
    worker.resume();
  }

  /** SIGKILL, and a new process after `downMs`. */
  async killWorker(worker: WorkerProcess, downMs: number): Promise<void> {
    const killedAt = this.mark({ mark: 'worker-killed', worker: worker.name });
    const stall = await worker.kill(killedAt);
    if (stall) this.cast.file.append(stall);
    await this.pause(downMs);
    worker.restart();
  }

  async everyWorker(act: (worker: WorkerProcess) => Promise<unknown>): Promise<void> {
    await Promise.all(this.workers.map(act));
  }

  /** Finds, while nobody asks for anything, what is on the servers although nobody holds it. */
  findOrphans(): Promise<string[]> {
    return findLeakedKeys(this.servers, KEY_PREFIX);
  }

  /** Counts how often servers were given a whole script, as every join is, since they started. */
  async countJoins(): Promise<number> {
    const counts = await Promise.all(this.servers.map((server) => commandCalls(server, 'eval')));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  get #all(): number[] {
    return this.servers.map((_, index) => index);
  }

  /** Writes down from when to when `during` lasted; it resolves with the time in which its servers certainly don't vote. */
  async #fault(facts: FaultFacts, during: () => Promise<FaultEvent['guard'] | void>) {
    const from = historyNow();
    const guard = (await during()) ?? undefined;
    const at = historyNow();
    this.cast.file.append({ type: 'fault', process: 'campaign', ...facts, from, at, guard });
  }

  async #each(nodes: readonly number[], act: (server: RedisServer) => Promise<unknown>) {
    await Promise.all(nodes.map((node) => act(this.servers[node]!)));
  }
}
