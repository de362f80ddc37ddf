import { setTimeout as sleep } from 'node:timers/promises';
import {
  connectRedis,
  disconnect,
  load,
  whileWorking,
  type Library,
  type Locks,
} from '../library.ts';

/** For so long a job waits for a caller that has just had one. */
const IDLE_MS = 100;

interface Times {
  readonly lockDuration: number;
  readonly stalledInterval: number;
}

/** The jobs of a queue run one at a time: a caller adds a job, and has the lock while this process runs one. */
async function open(url: string, times: Times, isTold: boolean): Promise<Locks> {
  const { Queue, Worker } = load('bullmq');
  const clients: any[] = [];
  const closing: (() => Promise<unknown>)[] = [];
  const connect = (): any => {
    const [connection] = connectRedis([url], { maxRetriesPerRequest: null });
    clients.push(connection);
    return connection;
  };
  const openQueue = async (key: string) => {
    const callers: ((signal?: AbortSignal) => Promise<void>)[] = [];
    let arrived = (): void => undefined;
    const work = async (signal?: AbortSignal): Promise<void> => {
      const arrival = new Promise<void>((resolve) => (arrived = resolve));
      if (callers.length === 0) await Promise.race([arrival, sleep(IDLE_MS)]);
      const caller = callers.shift();
      if (caller) return caller(signal);
      // Nobody wants the lock here any more: the job is for a caller of another process.
      await worker.pause(true);
      worker.once('completed', () => void queue.add('turn', {}));
    };
    const queue = new Queue(key, { connection: connect() });
    await queue.setGlobalConcurrency(1);
    // It gives a signal to a function with three parameters.
    const run = isTold
      ? (_job: unknown, _token: string, signal: AbortSignal) => work(signal)
      : () => work();
    const worker = new Worker(key, run, { connection: connect(), ...times });
    for (const each of [queue, worker]) each.on('error', () => undefined);
    worker.on('lockRenewalFailed', (jobs: readonly string[]) => {
      if (isTold) for (const job of jobs) worker.cancelJob(job);
    });
    closing.push(() => worker.close(true));
    return async (caller: (signal?: AbortSignal) => Promise<void>): Promise<void> => {
      const worked = new Promise<void>((resolve) => {
        callers.push((signal) => caller(signal).finally(resolve));
      });
      arrived();
      if (worker.isPaused()) worker.resume();
      await queue.add('turn', {});
      await worked;
    };
  };
  const queues = new Map<string, ReturnType<typeof openQueue>>();
  return {
    acquire: async (key) => {
      if (!queues.has(key)) queues.set(key, openQueue(key));
      const turn = await queues.get(key)!;
      return whileWorking((work) =>
        turn((signal) => work({ isHeld: () => signal && !signal.aborted })),
      );
    },
    close: async () => {
      await Promise.all(closing.map((close) => close()));
      await disconnect(clients);
    },
  };
}

export const library: Library = {
  package: 'bullmq',
  servers: 'redis',
  errors: [],
  defaults: {
    what: 'a queue with global concurrency 1',
    servers: 1,
    // Both are 30 s unless one says otherwise.
    open: ([url], ttlMs) => open(url!, { lockDuration: ttlMs, stalledInterval: ttlMs }, false),
  },
  best: {
    what: 'a signal by `lockRenewalFailed`, stalled jobs looked for twice as often',
    servers: 1,
    open: ([url], ttlMs) => open(url!, { lockDuration: ttlMs, stalledInterval: ttlMs / 2 }, true),
  },
};
