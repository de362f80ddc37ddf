import { randomBytes } from 'node:crypto';
import { Pool } from 'pg';
import type { BookingResult } from './booking-result.ts';
import type { Books } from './books.ts';
import type { Cleanup } from './cleanup.ts';
import { Cluster } from './cluster.ts';
import { openDatabase } from './database.ts';
import { readBooks } from './read-books.ts';
import type { StageEvent } from './stage-event.ts';
import type { StageLog } from './stage-log.ts';
import type { Observation } from './summary.ts';
import { WorkerProcess } from './worker-process.ts';

const WORKERS = 3;

/** Differences of a stage from the one on which the story is played. */
export interface StageOptions {
  /** Time that the payment provider takes to answer. @default the provider's own */
  readonly paymentAnswerMs?: number;
}

/** Means that acts have at hand: the servers, the workers, the database's books, and a log of all that happens. */
export class Stage {
  /** Findings of the act that is playing. */
  observations: Observation[] = [];

  private constructor(
    readonly log: StageLog,
    readonly cluster: Cluster,
    readonly workers: readonly WorkerProcess[],
    private readonly pool: Pool,
    /** Prefix of the names of the locks on the servers. */
    readonly lockKeyPrefix: string,
  ) {}

  /**
   * Starts servers, database and workers. All of them are adopted by `cleanup` before anything can go wrong with them.
   * @throws Error with one clear message when something needed is missing.
   */
  static async open(
    log: StageLog,
    cleanup: Cleanup,
    { paymentAnswerMs }: StageOptions = {},
  ): Promise<Stage> {
    const tell = (text: string): void => log.append({ type: 'narrated', text });
    tell('starting Redis servers and PostgreSQL');
    const [cluster, database] = await Promise.all([
      Cluster.start(({ number, state }) => log.append({ type: 'node', node: number, state })).then(
        (started) => {
          cleanup.adopt(() => started.stop());
          tell(`${started.nodes.length} servers: ${started.description}`);
          return started;
        },
      ),
      openDatabase((stop) => cleanup.adopt(stop)).then((opened) => {
        tell(opened.description);
        return opened;
      }),
    ]);
    const pool = new Pool({ connectionString: database.url, max: 2 });
    pool.on('error', () => undefined);
    cleanup.adopt(() => pool.end());
    // Servers of REDIS_NODES are shared: another run must not meet our locks.
    const lockKeyPrefix = `sample:${randomBytes(4).toString('hex')}:`;
    const workers = await startWorkers(log, cleanup, {
      REDIS_NODES: cluster.urls.join(','),
      DATABASE_URL: database.url,
      LOCK_KEY_PREFIX: lockKeyPrefix,
      ...(paymentAnswerMs !== undefined && { PAYMENT_ANSWER_MS: String(paymentAnswerMs) }),
    });
    return new Stage(log, cluster, workers, pool, lockKeyPrefix);
  }

  /** Workers from 1. */
  worker(number: number): WorkerProcess {
    const worker = this.workers[number - 1];
    if (!worker) throw new Error(`There is no worker ${number}.`);
    return worker;
  }

  tell(text: string, tone?: 'good' | 'bad'): void {
    this.log.append({ type: 'narrated', text, tone });
  }

  /** Notes what was found about a promise of the act that is playing. */
  observe(id: string, isKept: boolean, observed: string): void {
    this.observations.push({ id, isKept, observed });
  }

  books(seats: readonly string[]): Promise<Books> {
    return readBooks(this.pool, seats);
  }

  /** Lets every customer ask for every seat, all at once, each at another worker than the one before. */
  sell(seats: readonly string[], customers: readonly string[]): Promise<BookingResult[]> {
    const requests = seats.flatMap((seatId, row) =>
      customers.map((customer, column) => {
        const worker = this.worker(((row + column) % this.workers.length) + 1);
        return worker.book(seatId, customer);
      }),
    );
    const sale = Promise.all(requests);
    // Acts await it later; until then a worker that ended is no unhandled rejection.
    sale.catch(() => undefined);
    return sale;
  }

  /** The customer's next step of this name. */
  async step(name: string, customer: string): Promise<void> {
    await this.log.next(
      (event) =>
        event.type === 'step' && event.step.name === name && event.step.customer === customer,
      `${customer} has not come to '${name}'`,
    );
  }

  /** Events since the record of this index. */
  eventsSince(index: number): StageEvent[] {
    return this.log.records.slice(index).map(({ event }) => event);
  }
}

async function startWorkers(
  log: StageLog,
  cleanup: Cleanup,
  environment: Readonly<Record<string, string>>,
): Promise<WorkerProcess[]> {
  const workers = Array.from({ length: WORKERS }, (_, index) => {
    const worker = new WorkerProcess(index + 1, environment, (event) => log.append(event));
    cleanup.adopt(() => worker.kill());
    return worker;
  });
  log.append({
    type: 'narrated',
    text: `starting ${WORKERS} workers, which wait until new servers give locks (one ttl)`,
  });
  await Promise.all(workers.map((worker) => worker.ready()));
  return workers;
}
