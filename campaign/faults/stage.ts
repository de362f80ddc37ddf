import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HistoryFile, readHistory } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { recordStalls } from '../../test/history/record-stalls.ts';
import { processState } from '../../test/support/process-state.ts';
import type { Edit } from '../../test/support/program.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import type { RedisServer } from '../../test/support/redis-servers/redis-server.ts';
import { respRequest } from '../../test/support/redis-servers/resp-request.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import type { CampaignEvent, FaultEvent, Mark, MarkEvent, ProblemEvent } from './campaign-event.ts';
import type { ErrorCondition } from './conditions.ts';
import { RUN_LIMITS } from './judge/verdict.ts';
import type { Schedule } from './schedule.ts';
import type { LinkMode } from '../../test/support/link.ts';
import { Network, type LinkSelection } from './world/network.ts';
import type { Load } from './worker/worker-settings.ts';
import { WorkerProcess } from './worker/worker-process.ts';

export const TTL_MS = RUN_LIMITS.ttlMs;
export const KEY_PREFIX = 'campaign:';
const WORKERS = 4;
const STOP_LIMIT_MS = 10_000;

/** A service that is neither idle nor overloaded: some records, short and long work, some sets, all kinds of waits. */
const USUAL_LOAD: Load = {
  callers: 4,
  keys: 4,
  waitsMs: [0, 300, 3_000, 3_000],
  holdMs: [0, 40],
  longShare: 0.02,
  unextendedShare: 0.02,
  setShare: 0.1,
  pauseMs: 20,
};

type FaultFacts = Omit<FaultEvent, 'type' | 'process' | 'from' | 'at' | 'guard'>;

/** Servers and processes of one run, and what a schedule does to them: every fault is in the history with its time. */
export class Stage {
  readonly random: SeededRandom;
  servers: readonly RedisServer[] = [];
  network!: Network;
  workers: readonly WorkerProcess[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'lock-campaign-'));
  readonly #file = new HistoryFile<CampaignEvent>(this.#path('campaign'));
  readonly #stopRecording = recordStalls(this.#file, 'campaign');

  private constructor(seed: number) {
    this.random = new SeededRandom(seed);
  }

  /** `edits`: changes to the code under test, which controls break on purpose. */
  static async open(schedule: Schedule, seed: number, edits: readonly Edit[]): Promise<Stage> {
    const stage = new Stage(seed);
    try {
      await stage.#start(schedule, seed, edits);
      return stage;
    } catch (error) {
      await stage.end();
      throw error;
    }
  }

  /** The events that all have written down so far. */
  readHistories(): CampaignEvent[][] {
    const own = ['campaign', 'world'].map((name) => this.#path(name));
    const paths = [...own, ...this.workers.flatMap(({ historyPaths }) => historyPaths)];
    return paths.map((path) => readHistory<CampaignEvent>(path));
  }

  /** Ends and removes everything, whatever its state. */
  async end(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.kill()));
    await this.network?.program.kill();
    await Promise.all(this.servers.map((server) => server.stop()));
    this.#stopRecording();
    this.#file.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  mark(mark: Mark): void {
    const at = historyNow();
    this.#file.append({ type: 'mark', process: 'campaign', at, ...mark } as MarkEvent);
  }

  problem(kind: ProblemEvent['kind'], process: string, message: string): void {
    this.#file.append({ type: 'problem', process, at: historyNow(), kind, message });
  }

  /** A promise of this schedule alone. */
  promise(isKept: boolean, message: string): void {
    if (!isKept) this.problem('broken-promise', 'campaign', message);
  }

  async pause(durationMs: number): Promise<void> {
    await sleep(durationMs);
  }

  /** The indices of `count` servers, by chance. */
  someServers(count: number): number[] {
    const left = [...this.servers.keys()];
    return Array.from({ length: count }, () => {
      const index = Math.floor(this.random.fraction() * left.length);
      return left.splice(index, 1)[0]!;
    });
  }

  aWorker(): WorkerProcess {
    return this.random.pick(this.workers);
  }

  /** Links are in this mode for so long. What `truncate` and `garbage` do is written down by the network each time it happens. */
  async links(mode: LinkMode, durationMs: number, selection: LinkSelection = {}): Promise<void> {
    const change = async (): Promise<void> => {
      await this.network.do({ type: 'set', mode, selection });
      await this.pause(durationMs);
      await this.network.do({ type: 'set', mode: { kind: 'pass' }, selection });
    };
    if (mode.kind === 'truncate' || mode.kind === 'garbage') return change();
    const { nodes = [...this.servers.keys()], clients } = selection;
    const workers = clients?.map((client) => this.workers[client]!.place);
    const effects = { isOffline: mode.kind === 'reset', delivers: mode.kind === 'hold' };
    return this.#fault({ what: JSON.stringify(mode), nodes, workers, ...effects }, change);
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
      const from = historyNow();
      await this.pause(downMs);
      // The guard begins with the first join, and nobody joins a server that is down.
      const to = historyNow() + TTL_MS;
      await this.#each(nodes, (server) => server.restart({ keepData }));
      return { from, to };
    });
  }

  /** FLUSHALL. */
  async flush(nodes: readonly number[]): Promise<void> {
    await this.#fault({ what: 'emptied', nodes }, async () => {
      // The first may have been joined again before the last was emptied.
      const to = historyNow() + TTL_MS;
      await this.#each(nodes, ({ host, port }) =>
        respRequest({ address: { host, port } }, ['FLUSHALL']),
      );
      return { from: historyNow(), to };
    });
  }

  /** Servers are in this state, for `durationMs` if they don't leave it by themselves. */
  async suffer(
    { name: what, isOffline, rejoins, beginsGuard, refuses, begin }: ErrorCondition,
    nodes: readonly number[],
    durationMs: number,
  ): Promise<void> {
    await this.#fault({ what, nodes, isOffline, rejoins, refuses }, async () => {
      const ends = await Promise.all(nodes.map((node) => begin(this.servers[node]!)));
      const from = historyNow();
      await this.pause(durationMs);
      await Promise.all(ends.map((end) => end()));
      // The start of its guard depends on how quickly it loads.
      return beginsGuard ? { from, to: from } : undefined;
    });
  }

  /**
   * Sets how far the clocks of servers are from the real one. Locks end early or late, and far back in time a server finds
   * that it has to be joined again.
   */
  async moveClocks(nodes: readonly number[], offsetMs: number): Promise<void> {
    const move = async (): Promise<void> => {
      const from = historyNow();
      await this.#each(nodes, (server) => server.moveClock(offsetMs));
      this.mark({ mark: 'clocks-moved', nodes, from });
    };
    if (offsetMs > -TTL_MS) return move();
    await this.#fault({ what: 'clock moved back', nodes }, async () => {
      await move();
      return { from: 0, to: 0 };
    });
  }

  /** SIGSTOP for so long. What it writes down of that itself is the only excuse. */
  async stopNetwork(durationMs: number): Promise<void> {
    this.network.program.child.kill('SIGSTOP');
    await this.pause(durationMs);
    this.network.program.child.kill('SIGCONT');
  }

  /** SIGSTOP for so long. */
  async stopWorker(worker: WorkerProcess, durationMs: number): Promise<void> {
    worker.freeze();
    await this.pause(durationMs);
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
    const killedAt = historyNow();
    this.mark({ mark: 'worker-killed', worker: worker.name });
    const stall = await worker.kill(killedAt);
    if (stall) this.#file.append(stall);
    await this.pause(downMs);
    worker.restart();
  }

  async everyWorker(act: (worker: WorkerProcess) => Promise<unknown>): Promise<void> {
    await Promise.all(this.workers.map(act));
  }

  async #start(schedule: Schedule, seed: number, edits: readonly Edit[]): Promise<void> {
    const { limits, workers: clients = WORKERS, load, options = {} } = schedule;
    const count = limits?.nodes ?? RUN_LIMITS.nodes;
    this.servers = await startRedisServers(count, { ...schedule.servers, own: true });
    const targets = this.servers.map(({ host, port }) => ({ host, port }));
    const settings = { targets, clients, seed, historyPath: this.#path('world') };
    this.network = await Network.start(settings, edits);
    this.workers = Array.from({ length: clients }, (_, index) => {
      return new WorkerProcess({
        script: 'campaign/faults/worker/worker.ts',
        index,
        seed,
        edits,
        historyFolder: this.#folder,
        settings: {
          urls: targets.map((_target, node) => this.network.url(index, node)),
          keyPrefix: KEY_PREFIX,
          ttlMs: TTL_MS,
          load: { ...USUAL_LOAD, ...load },
          resourcePort: this.network.resourcePort,
          // Clocks of machines that are kept in step are some milliseconds apart.
          wallSkewMs: (index - 1.5) * 10,
          notesVotes: (limits?.overlapMs ?? 0) > 0,
          options,
        },
      });
    });
    await Promise.all(this.workers.map((worker) => worker.started()));
  }

  #path(name: string): string {
    return join(this.#folder, `${name}.jsonl`);
  }

  /** Writes down from when to when `during` lasted; it resolves with the time in which its servers certainly don't vote. */
  async #fault(facts: FaultFacts, during: () => Promise<FaultEvent['guard'] | void>) {
    const from = historyNow();
    const guard = (await during()) ?? undefined;
    this.#file.append({
      type: 'fault',
      process: 'campaign',
      ...facts,
      from,
      at: historyNow(),
      guard,
    });
  }

  async #each(nodes: readonly number[], act: (server: RedisServer) => Promise<unknown>) {
    await Promise.all(nodes.map((node) => act(this.servers[node]!)));
  }
}
