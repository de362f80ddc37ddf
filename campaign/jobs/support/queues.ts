import { createPostgresBackend, Queue as BullQueue, Worker } from 'bullmq';
import pg from 'pg';

/** Runs one job, whose number is in its data. */
export type Run = (job: object, number: number, queue?: string) => Promise<void>;

/** A kind of queue, as its documentation has it, but with times that end soon. */
export interface Queue {
  /** The time for which a worker is frozen: longer than the queue waits for it. */
  readonly freezeMs: number;
  /** Adds a job for each number; the first call makes the queue. */
  add(url: string, numbers: readonly number[]): Promise<void>;
  /** Works on jobs. */
  consume(url: string, run: Run): Promise<void>;
  /** How many jobs are not done. */
  pending(url: string): Promise<number>;
  /** Does at once what the server does after hours: it gives up what the frozen processes have taken. */
  giveUp?(url: string): Promise<void>;
}

const NAME = 'jobs';
const CONCURRENCY = 8;
const FOREVER = 1_000_000;

/** Packages of this folder, which is not installed where the code is only compiled. */
const load = (name: string): Promise<any> => import(name);

function bullmq(backend: (url: string) => readonly [connection: any, factory?: any]): Queue {
  const inQueue = async <Result>(url: string, use: (queue: BullQueue) => Promise<Result>) => {
    const [connection, factory] = backend(url);
    const queue = new BullQueue(NAME, { connection }, factory);
    try {
      return await use(queue);
    } finally {
      await queue.close();
    }
  };
  return {
    freezeMs: 1_200,
    async add(url, numbers) {
      const opts = { attempts: FOREVER };
      const jobs = numbers.map((number) => ({ name: 'job', data: { number }, opts }));
      await inQueue(url, (queue) => queue.addBulk(jobs));
    },
    async consume(url, run) {
      const [connection, factory] = backend(url);
      const times = { lockDuration: 400, stalledInterval: 200, maxStalledCount: FOREVER };
      const options = { connection, concurrency: CONCURRENCY, ...times };
      const worker = new Worker(NAME, (job) => run(job, job.data.number), options, factory);
      worker.on('error', () => undefined);
      await worker.waitUntilReady();
    },
    pending: (url) =>
      inQueue(url, async (queue) => {
        const counts = await queue.getJobCounts('wait', 'active', 'delayed', 'failed');
        return Object.values(counts).reduce((sum, each) => sum + each, 0);
      }),
  };
}

const pgBoss: Queue = {
  freezeMs: 4_000,
  async add(connectionString, numbers) {
    const { PgBoss } = await load('pg-boss');
    const boss = new PgBoss({ connectionString, supervise: false, schedule: false });
    await boss.start();
    const retries = { retryLimit: 1_000, retryDelay: 0, expireInSeconds: 1 };
    await boss.createQueue(NAME, retries);
    await boss.insert(
      NAME,
      numbers.map((number) => ({ data: { number }, ...retries })),
    );
    await boss.stop({ graceful: false });
  },
  async consume(connectionString, run) {
    const { PgBoss } = await load('pg-boss');
    const often = { superviseIntervalSeconds: 1, monitorIntervalSeconds: 1 };
    const boss = new PgBoss({ connectionString, schedule: false, ...often });
    boss.on('error', () => undefined);
    await boss.start();
    const options = {
      includeMetadata: true,
      pollingIntervalSeconds: 0.5,
      localConcurrency: CONCURRENCY,
    };
    await boss.work(NAME, options, ([job]: any[]) => run(job, job.data.number));
  },
  pending: (url) =>
    count(url, `SELECT count(*) FROM pgboss.job WHERE name = '${NAME}' AND state <> 'completed'`),
};

const graphile: Queue = {
  freezeMs: 1_200,
  async add(url, numbers) {
    const { makeWorkerUtils } = await load('graphile-worker');
    const utils = await makeWorkerUtils({ connectionString: url });
    await utils.migrate();
    for (const number of numbers) await utils.addJob(NAME, { number }, { maxAttempts: 1_000 });
    await utils.release();
  },
  async consume(connectionString, run) {
    const { run: start, Logger } = await load('graphile-worker');
    const taskList = { [NAME]: ({ number }: any, { job }: any) => run(job, number) };
    const reset = { minResetLockedInterval: 200, maxResetLockedInterval: 300 };
    const preset = {
      worker: { connectionString, concurrentJobs: CONCURRENCY, pollInterval: 200, ...reset },
    };
    const logger = new Logger(() => () => undefined);
    await start({ preset, taskList, logger, noHandleSignals: true });
  },
  pending: (url) => count(url, 'SELECT count(*) FROM graphile_worker._private_jobs'),
  async giveUp(url) {
    await query(
      url,
      "UPDATE graphile_worker._private_jobs SET locked_at = now() - interval '5 hours' WHERE locked_at < now() - interval '0.5 s'",
    );
  },
};

/** Messages of NATS and RabbitMQ are acknowledged when their run has ended well; of one that has not, nothing is said. */
const nats: Queue = {
  freezeMs: 1_500,
  async add(servers, numbers) {
    const { manager, js, close } = await jetStream(servers);
    await manager.streams.add({ name: NAME, subjects: [NAME], retention: 'workqueue' });
    const times = { ack_policy: 'explicit', ack_wait: 800 * 1e6, max_ack_pending: -1 };
    await manager.consumers.add(NAME, { durable_name: NAME, ...times });
    for (const number of numbers) await js.publish(NAME, String(number));
    await close();
  },
  async consume(servers, run) {
    const { js } = await jetStream(servers);
    const consumer = await js.consumers.get(NAME, NAME);
    const next = async (): Promise<void> => {
      for (;;) {
        const message = await consumer.next({ expires: 1_000 }).catch(() => null);
        if (message === null) continue;
        await run(message, Number(message.string())).then(
          () => message.ack(),
          () => undefined,
        );
      }
    };
    for (let index = 0; index < CONCURRENCY; index += 1) void next();
  },
  async pending(servers) {
    const { manager, close } = await jetStream(servers);
    const { state } = await manager.streams.info(NAME);
    await close();
    return state.messages;
  },
};

async function jetStream(servers: string) {
  const [{ connect }, { jetstream, jetstreamManager }] = await Promise.all(
    ['@nats-io/transport-node', '@nats-io/jetstream'].map(load),
  );
  const connection = await connect({ servers, maxReconnectAttempts: -1 });
  const manager = await jetstreamManager(connection);
  return { js: jetstream(connection), manager, close: () => connection.close() };
}

const rabbitmq: Queue = {
  // The server gives up a connection of which it has heard nothing for two heartbeats.
  freezeMs: 4_500,
  async add(url, numbers) {
    const { channel, close } = await amqp(url);
    await channel.assertQueue(NAME, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
    for (const number of numbers) {
      const timestamp = Math.floor(Date.now() / 1_000);
      const about = { messageId: `m${number}`, timestamp, persistent: true };
      channel.sendToQueue(NAME, Buffer.from(String(number)), about);
    }
    await channel.waitForConfirms();
    await close();
  },
  async consume(url, run) {
    const { connection, channel } = await amqp(url);
    connection.on('close', () => setTimeout(() => void rabbitmq.consume(url, run), 100));
    await channel.prefetch(CONCURRENCY);
    await channel.consume(NAME, (message: any) => {
      const done = () => channel.ack(message);
      run(message, Number(message.content), NAME)
        .then(done)
        .catch(() => undefined);
    });
  },
  async pending(url) {
    const { channel, close } = await amqp(url);
    const { messageCount } = await channel.checkQueue(NAME);
    await close();
    return messageCount;
  },
};

async function amqp(url: string) {
  const { connect } = await load('amqplib');
  const connection = await connect(`${url}?heartbeat=1`);
  connection.on('error', () => undefined);
  const channel = await connection.createConfirmChannel();
  channel.on('error', () => undefined);
  return { connection, channel, close: () => connection.close() };
}

async function query(connectionString: string, text: string): Promise<any[]> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

async function count(url: string, text: string): Promise<number> {
  return Number((await query(url, text))[0].count);
}

export const QUEUES = {
  'BullMQ on Redis': bullmq((url) => [{ url }]),
  'BullMQ on PostgreSQL': bullmq((connectionString) => [
    { connectionString, migrate: true },
    createPostgresBackend,
  ]),
  'pg-boss': pgBoss,
  'graphile-worker': graphile,
  NATS: nats,
  RabbitMQ: rabbitmq,
} satisfies Record<string, Queue>;
