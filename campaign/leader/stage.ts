import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { postgresFence } from '../../lib/fencing/index.ts';
import { HistoryFile, readHistory } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { recordStalls } from '../../test/history/record-stalls.ts';
import type { DatabaseServer } from '../../test/support/databases/database-server.ts';
import { startPostgres } from '../../test/support/databases/postgres-server.ts';
import { Link, type LinkMode } from '../../test/support/link.ts';
import { processState } from '../../test/support/process-state.ts';
import type { Edit } from '../../test/support/program.ts';
import { startRedisServers, type RedisServer } from '../../test/support/redis-servers/index.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import { COUNTER_TABLES, readWritten } from '../database/counters.ts';
import { mergeHistory, type CampaignEvent, type MarkEvent } from '../faults/campaign-event.ts';
import { WorkerProcess } from '../faults/worker/worker-process.ts';
import { TTL_MS, type WorkerCommand, type WorkerSettings } from './worker-settings.ts';

const PROCESSES = 5;
const SERVERS = 3;
const LEADER_LIMIT_MS = 60_000;
/** A leader whose database is slow comes to its next write later. */
const STOP_LIMIT_MS = 10_000;

type Worker = WorkerProcess<WorkerSettings, WorkerCommand>;

/** The leader was disturbed from a time on. */
export interface Disturbance {
  readonly fault: Fault;
  /** The name of its process in the history. */
  readonly process: string;
  readonly at: number;
}

/** What is done to a leader. */
export type Fault = 'kill' | 'freeze' | 'cutOff' | 'block' | 'shutDown';

/** A fleet of processes, servers that give locks, and a database. */
export class Stage {
  readonly disturbances: Disturbance[] = [];
  #workers: readonly Worker[] = [];
  #servers: readonly RedisServer[] = [];
  #links: readonly (readonly Link[])[] = [];
  #database!: DatabaseServer;
  #pool!: pg.Pool;
  readonly #random: SeededRandom;
  readonly #folder = mkdtempSync(join(tmpdir(), 'leader-'));
  readonly #path = join(this.#folder, 'campaign.jsonl');
  readonly #file = new HistoryFile<CampaignEvent>(this.#path);
  readonly #stopRecording = recordStalls(this.#file, 'campaign');

  private constructor(seed: number) {
    this.#random = new SeededRandom(seed);
  }

  static async open(seed: number, edits: readonly Edit[]): Promise<Stage> {
    const stage = new Stage(seed);
    try {
      await stage.#start(seed, edits);
      return stage;
    } catch (error) {
      await stage.end();
      throw error;
    }
  }

  /** Waits until a process leads, and disturbs it for longer than a ttl. */
  async disturbLeader(fault: Fault): Promise<void> {
    const index = await this.#leader();
    const worker = this.#workers[index]!;
    this.disturbances.push({ fault, process: worker.name, at: historyNow() });
    const durationMs = this.#random.between(1.2, 2.5) * TTL_MS;
    if (fault === 'kill') await this.#kill(worker);
    else if (fault === 'shutDown') {
      await worker.finish();
      worker.restart();
      await worker.started();
    } else if (fault === 'freeze') {
      await worker.ask({ type: 'stop-before-write' });
      const untilMs = historyNow() + STOP_LIMIT_MS;
      while (processState(worker.pid) !== 'T' && historyNow() < untilMs) await sleep(5);
      await sleep(durationMs);
      worker.resume();
    } else if (fault === 'block') {
      await worker.ask({ type: 'block-before-write', durationMs });
      await sleep(durationMs);
    } else await this.#cutOff(this.#links[index]!, durationMs);
  }

  /** Lets everybody finish, and collects what all have written down. The writes of the database stand last, in their order. */
  async finish(): Promise<CampaignEvent[]> {
    await Promise.all(this.#workers.map((worker) => worker.finish()));
    for (const { name: process, failures } of this.#workers)
      for (const message of failures)
        this.#append({
          type: 'problem',
          process,
          at: historyNow(),
          kind: 'does-not-exit',
          message,
        });
    const paths = [this.#path, ...this.#workers.flatMap(({ historyPaths }) => historyPaths)];
    const history = mergeHistory(paths.map((path) => readHistory<CampaignEvent>(path)));
    return [...history, ...(await readWritten(this.#pool))];
  }

  /** Ends and removes everything, whatever its state. */
  async end(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.kill()));
    await Promise.all(this.#links.flat().map((link) => link.close()));
    await this.#pool?.end();
    await this.#database?.stop();
    await Promise.all(this.#servers.map((server) => server.stop()));
    this.#stopRecording();
    this.#file.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #leader(): Promise<number> {
    for (const untilMs = historyNow() + LEADER_LIMIT_MS; historyNow() < untilMs; await sleep(20)) {
      const leads = await Promise.all(
        this.#workers.map((worker) => worker.ask<boolean>({ type: 'leads' })),
      );
      if (leads.includes(true)) return leads.indexOf(true);
    }
    throw new Error(`no process leads after ${LEADER_LIMIT_MS} ms`);
  }

  async #kill(worker: Worker): Promise<void> {
    const at = historyNow();
    this.#append({ type: 'mark', at, mark: 'worker-killed', worker: worker.name } as MarkEvent);
    const stall = await worker.kill(at);
    if (stall) this.#append(stall);
    worker.restart();
    await worker.started();
  }

  async #cutOff(links: readonly Link[], durationMs: number): Promise<void> {
    const mode = this.#random.pick<LinkMode>([
      { kind: 'hold' },
      { kind: 'lose' },
      { kind: 'lose', direction: 'replies' },
      { kind: 'reset' },
    ]);
    for (const link of links) link.setMode(mode);
    await sleep(durationMs);
    for (const link of links) link.setMode({ kind: 'pass' });
  }

  async #start(seed: number, edits: readonly Edit[]): Promise<void> {
    this.#database = await startPostgres();
    const { url: databaseUrl } = this.#database;
    this.#pool = new pg.Pool({ connectionString: databaseUrl, max: 2 });
    this.#pool.on('error', () => undefined);
    await this.#pool.query(`${postgresFence(this.#pool).ddl()} ${COUNTER_TABLES}`);
    this.#servers = await startRedisServers(SERVERS, { own: true });
    const targets = this.#servers.map(({ url }) => new URL(url));
    const linksOf = (index: number) =>
      targets.map(({ hostname: host, port }) =>
        Link.open({ host, port: Number(port) }, new SeededRandom(seed + index)),
      );
    this.#links = await Promise.all(
      Array.from({ length: PROCESSES }, (_none, index) => Promise.all(linksOf(index))),
    );
    this.#workers = this.#links.map(
      (links, index) =>
        new WorkerProcess<WorkerSettings, WorkerCommand>({
          script: 'campaign/leader/worker.ts',
          index,
          seed,
          historyFolder: this.#folder,
          edits,
          settings: { urls: links.map(({ url }) => url), databaseUrl },
        }),
    );
    await Promise.all(this.#workers.map((worker) => worker.started()));
  }

  #append(event: CampaignEvent): void {
    this.#file.append(event);
  }
}
