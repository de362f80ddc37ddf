import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { postgresNode } from '../../lib/postgres/index.ts';
import { HistoryFile, readHistory } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { recordStalls } from '../../test/history/record-stalls.ts';
import type { DatabaseServer } from '../../test/support/databases/database-server.ts';
import { startPgBouncer, type PgBouncer } from '../../test/support/databases/pgbouncer.ts';
import { startPostgres } from '../../test/support/databases/postgres-server.ts';
import { Link, type LinkMode } from '../../test/support/link.ts';
import { processState } from '../../test/support/process-state.ts';
import { type RedisServer, startRedisServers } from '../../test/support/redis-servers/index.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import { mergeHistory, type CampaignEvent, type MarkEvent } from '../faults/campaign-event.ts';
import { WorkerProcess } from '../faults/worker/worker-process.ts';
import { COUNTER_TABLES, readWritten } from './counters.ts';
import { TTL_MS, type Load, type WorkerCommand, type WorkerSettings } from './worker-settings.ts';

/** The connections that the pooler opens to the database: much fewer than there are callers. */
const POOLER_SIZE = 10;
const STOP_LIMIT_MS = 10_000;
const SETTINGS = {
  // What is updated all the time would grow without it.
  autovacuum: 'on',
  autovacuum_naptime: '1',
  // What a commit leaves to the writer is gone after a crash.
  wal_writer_delay: '10s',
};

/** What a play needs. */
export interface StageSettings {
  readonly workers: number;
  readonly load: Load;
  /** The number of Redis servers that give locks besides the database. */
  readonly redisServers: number;
  /** A change to the functions of the locks, by which they are broken on purpose. */
  readonly breaks?: ((definition: string) => string) | undefined;
}

/** The rows of the locks, and the place that they take. */
export interface TableSizes {
  readonly leases: number;
  readonly waiters: number;
  readonly bytes: number;
}

type Worker = WorkerProcess<WorkerSettings, WorkerCommand>;

/** A database behind a pooler, the processes that use it, and what is done to them. */
export class Stage {
  workers: readonly Worker[] = [];
  redis: readonly RedisServer[] = [];
  /** The times at which workers were killed, in ms on the clock of the history. */
  readonly kills: number[] = [];
  #server!: DatabaseServer;
  #pooler!: PgBouncer;
  #pool!: pg.Pool;
  #links: readonly Link[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'lock-database-'));
  readonly #path = join(this.#folder, 'campaign.jsonl');
  readonly #file = new HistoryFile<CampaignEvent>(this.#path);
  readonly #stopRecording = recordStalls(this.#file, 'campaign');

  private constructor(readonly random: SeededRandom) {}

  static async open(settings: StageSettings, seed: number): Promise<Stage> {
    const stage = new Stage(new SeededRandom(seed));
    try {
      await stage.#start(settings, seed);
      return stage;
    } catch (error) {
      await stage.end();
      throw error;
    }
  }

  async crashDatabase(): Promise<void> {
    await this.#server.crash!();
  }

  async crashPooler(): Promise<void> {
    await this.#pooler.crash();
  }

  async cutConnections(): Promise<void> {
    for (const link of this.#links) link.resetConnections();
  }

  /** Some workers don't reach the pooler, in one of the ways of networks. */
  async loseNetwork(): Promise<void> {
    const mode = this.random.pick<LinkMode>([
      { kind: 'hold' },
      { kind: 'lose' },
      { kind: 'lose', direction: 'replies' },
      { kind: 'truncate', probability: 0.2 },
    ]);
    const links = this.#links.filter(() => this.random.fraction() < 0.5);
    for (const link of links) link.setMode(mode);
    await sleep(this.random.between(100, 1.2 * TTL_MS));
    for (const link of links) link.setMode({ kind: 'pass' });
  }

  /** SIGKILL, and a new process. */
  async killWorker(): Promise<void> {
    const worker = this.random.pick(this.workers);
    const at = historyNow();
    this.kills.push(at);
    this.#append({ type: 'mark', at, mark: 'worker-killed', worker: worker.name } as MarkEvent);
    const stall = await worker.kill(at);
    if (stall) this.#file.append(stall);
    worker.restart();
    await worker.started();
  }

  async stopWorker(): Promise<void> {
    const worker = this.random.pick(this.workers);
    worker.freeze();
    await sleep(this.random.between(0.2, 1.6) * TTL_MS);
    worker.resume();
  }

  /** A holder is stopped when its lock has just said that it may write, until others may have the lock. */
  async stopBetweenCheckAndWrite(): Promise<void> {
    const worker = this.random.pick(this.workers);
    await worker.ask({ type: 'stop-between-check-and-write' });
    const deadline = historyNow() + STOP_LIMIT_MS;
    while (processState(worker.pid) !== 'T' && historyNow() < deadline) await sleep(5);
    await sleep(this.random.between(0.8, 1.6) * TTL_MS);
    worker.resume();
  }

  async stopRedis(): Promise<void> {
    const server = this.random.pick(this.redis);
    if (this.random.fraction() < 0.5) {
      await server.freeze();
      await sleep(this.random.between(0.2, 1.5) * TTL_MS);
      await server.resume();
    } else {
      await server.kill();
      await sleep(this.random.between(0, TTL_MS));
      await server.restart();
    }
  }

  /** The connections to the database that are in use while every caller of every process holds a lock, and does nothing else. */
  async connectionsOfHolders(): Promise<number> {
    await Promise.all(this.workers.map((worker) => worker.ask({ type: 'hold' })));
    let fewest = Number.POSITIVE_INFINITY;
    // A process says now and then that it is there. What is held is there in each look.
    for (let looks = 0; looks < 10; looks += 1)
      fewest = Math.min(fewest, await this.#pooler.busyConnections());
    await Promise.all(this.workers.map((worker) => worker.ask({ type: 'go-on' })));
    return fewest;
  }

  async tableSizes(): Promise<TableSizes> {
    const sizes = ['redlock_lease', 'redlock_waiter', 'redlock_process', 'redlock_fence']
      .map((table) => `pg_table_size('${table}')`)
      .join(' + ');
    const { rows } = await this.#pool.query(
      `SELECT (SELECT count(*) FROM redlock_lease) AS leases,
        (SELECT count(*) FROM redlock_waiter) AS waiters, ${sizes} AS bytes`,
    );
    const { leases, waiters, bytes } = rows[0];
    return { leases: Number(leases), waiters: Number(waiters), bytes: Number(bytes) };
  }

  /** Lets everybody finish, and collects what all have written down. The writes of the database stand last, in their order. */
  async finish(): Promise<CampaignEvent[]> {
    await Promise.all(this.workers.map((worker) => worker.finish()));
    for (const { name, failures } of this.workers)
      for (const message of failures)
        this.#append({
          type: 'problem',
          process: name,
          at: historyNow(),
          kind: 'does-not-exit',
          message,
        });
    const paths = [this.#path, ...this.workers.flatMap(({ historyPaths }) => historyPaths)];
    const history = mergeHistory(paths.map((path) => readHistory<CampaignEvent>(path)));
    return [...history, ...(await readWritten(this.#pool))];
  }

  /** Ends and removes everything, whatever its state. */
  async end(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.kill()));
    await Promise.all(this.#links.map((link) => link.close()));
    await this.#pool?.end();
    await this.#pooler?.stop();
    await this.#server?.stop();
    await Promise.all(this.redis.map((server) => server.stop()));
    this.#stopRecording();
    this.#file.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #start(settings: StageSettings, seed: number): Promise<void> {
    this.#server = await startPostgres(SETTINGS);
    const { url } = this.#server;
    this.#pool = new pg.Pool({ connectionString: url, max: 2 });
    this.#pool.on('error', () => undefined);
    await this.#pool.query(`${postgresNode(this.#pool).ddl()} ${COUNTER_TABLES}`);
    if (settings.breaks) await this.#breakFunctions(settings.breaks);
    this.#pooler = await startPgBouncer(url, POOLER_SIZE);
    if (settings.redisServers > 0)
      this.redis = await startRedisServers(settings.redisServers, { own: true });
    const pooler = new URL(this.#pooler.url);
    const target = { host: pooler.hostname, port: Number(pooler.port) };
    this.#links = await Promise.all(
      Array.from({ length: settings.workers }, (_none, index) =>
        Link.open(target, new SeededRandom(seed + index)),
      ),
    );
    this.workers = this.#links.map((link, index) => {
      const own = new URL(pooler);
      own.port = String(link.port);
      return new WorkerProcess<WorkerSettings, WorkerCommand>({
        script: 'campaign/database/worker.ts',
        index,
        seed,
        historyFolder: this.#folder,
        edits: [],
        settings: {
          index,
          url: own.href,
          // Half of them have one connection for everything, and half of each hear of their turns.
          poolSize: index % 2 === 0 ? 1 : 10,
          ...(index % 4 < 2 && { listenUrl: url }),
          redisUrls: this.redis.map((server) => server.url),
          load: settings.load,
        },
      });
    });
    await Promise.all(this.workers.map((worker) => worker.started()));
  }

  async #breakFunctions(breaks: (definition: string) => string): Promise<void> {
    const { rows } = await this.#pool.query(
      "SELECT pg_get_functiondef(oid) AS definition FROM pg_proc WHERE proname ~ '^redlock_v'",
    );
    const before = rows.map(({ definition }) => String(definition));
    const changed = before.map(breaks).filter((text) => !before.includes(text));
    if (changed.length !== 1) throw new Error(`${changed.length} functions were broken, not one`);
    await this.#pool.query(changed[0]!);
  }

  #append(event: CampaignEvent): void {
    this.#file.append(event);
  }
}
