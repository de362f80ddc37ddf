import { randomBytes } from 'node:crypto';
import { findRedis, type RedisServer } from '../../test/support/redis-servers/index.ts';
import type { Cleanup } from './cleanup.ts';
import { openDatabase, type Database } from './database.ts';
import type { ServerState, ShowLog } from './log.ts';
import { WorkerProcess } from './worker-process.ts';

const OWN_SERVERS = 5;
const WORKERS = 3;

/** The Redis servers, the database and the workers with which the show is played. */
export class Stage {
  /** By the number of the server, less one. */
  readonly serverStates: ServerState[];

  private constructor(
    readonly log: ShowLog,
    readonly database: Database,
    readonly workers: readonly WorkerProcess[],
    private readonly servers: readonly RedisServer[],
    /** Whether servers may be killed: those of `REDIS_NODES` belong to others. */
    readonly canKill: boolean,
  ) {
    this.serverStates = servers.map(() => 'up');
  }

  /**
   * Starts everything. `cleanup` adopts each part before anything can go wrong with it.
   * @param paymentMs how long the payment provider takes to answer
   * @param withoutRedis the database keeps the locks
   * @throws Error with one clear message when something that is needed is missing.
   */
  static async open(
    log: ShowLog,
    cleanup: Cleanup,
    paymentMs: number,
    withoutRedis = false,
  ): Promise<Stage> {
    log.tell(`starting ${withoutRedis ? 'PostgreSQL' : 'Redis servers and PostgreSQL'}`);
    const [{ servers, canKill }, database] = await Promise.all([
      withoutRedis ? { servers: [], canKill: false } : startServers(log, cleanup),
      openDatabase(cleanup),
    ]);
    const guard = withoutRedis ? '' : ', which wait until new servers give locks (one ttl)';
    log.tell(`starting ${WORKERS} workers${guard}`);
    const environment = {
      REDIS_NODES: servers.map(({ url }) => url).join(','),
      DATABASE_URL: database.url,
      // Servers of REDIS_NODES are shared: another run must not meet our locks.
      LOCK_KEY_PREFIX: `sample:${randomBytes(4).toString('hex')}:`,
      PAYMENT_MS: String(paymentMs),
    };
    const workers = Array.from({ length: WORKERS }, (_, index) => {
      const worker = new WorkerProcess(index + 1, environment, log);
      cleanup.adopt(() => worker.kill());
      return worker;
    });
    await Promise.all(workers.map(({ ready }) => ready));
    return new Stage(log, database, workers, servers, canKill);
  }

  /** The worker of this number, from 1. */
  worker(number: number): WorkerProcess {
    return this.workers[number - 1]!;
  }

  /** SIGKILL: connections break, and the server forgets its locks. @param number of the server, from 1 */
  async killServer(number: number): Promise<void> {
    await this.servers[number - 1]!.kill();
    this.#became(number, 'killed');
  }

  /** Starts a killed server again, empty. @param number of the server, from 1 */
  async startServer(number: number): Promise<void> {
    await this.servers[number - 1]!.restart();
    this.#became(number, 'up');
    this.log.tell(
      `server ${number} came back without its data: it gives locks again after the restart guard`,
    );
  }

  #became(number: number, state: ServerState): void {
    this.serverStates[number - 1] = state;
    this.log.append({ type: 'server', server: number, state });
  }
}

async function startServers(
  log: ShowLog,
  cleanup: Cleanup,
): Promise<{ servers: readonly RedisServer[]; canKill: boolean }> {
  const provider = await findRedis();
  const given = (process.env['REDIS_NODES'] ?? '').split(',').filter((url) => url.trim() !== '');
  const servers = await provider.start(provider.way === 'urls' ? given.length : OWN_SERVERS);
  cleanup.adopt(() => Promise.all(servers.map((server) => server.stop())));
  log.tell(`${servers.length} servers: ${provider.description}`);
  return { servers, canKill: provider.canFault };
}
