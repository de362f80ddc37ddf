import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { isStaleTokenError } from '../../../lib/fencing/index.ts';
import { jobToken } from '../../../lib/jobs/index.ts';
import { answerQuestions, programSettings } from '../../../test/support/program.ts';
import { inPostgres, inSqlite, KINDS } from './ledger.ts';
import { QUEUES } from './queues.ts';

export interface WorkerSettings {
  readonly queue: keyof typeof QUEUES;
  readonly queueUrl: string;
  readonly databaseUrl: string;
  readonly file: string;
  /** How far the clock of this process is ahead. */
  readonly clockMs: number;
}

export type WorkerQuestion = { readonly blockMs: number } | { readonly ask: 'state' };

export interface WorkerState {
  readonly running: number;
  readonly refused: number;
  readonly errors: Record<string, number>;
}

const { queue, queueUrl, databaseUrl, file, clockMs } = programSettings<WorkerSettings>();
// BullMQ asks nothing else for the time.
const now = Date.now;
Date.now = () => now() + clockMs;

const pool = new pg.Pool({ connectionString: databaseUrl, max: 12 });
const stores = [inPostgres(pool), inSqlite(file)];
let running = 0;
let refused = 0;
const errors: Record<string, number> = {};

async function run(job: object, number: number, name?: string): Promise<void> {
  running += 1;
  try {
    const token = jobToken(job, name);
    const begun: (() => Promise<void>)[] = [];
    for (const store of stores) {
      for (const kind of KINDS) {
        const known = await store.begin(kind, number, token);
        begun.push(() => store.write(kind, number, token, known));
      }
    }
    await sleep(50 + (number % 7) * 100);
    // The plain writes come first: that of a stale run is not to be spared by the refusal of the fence.
    for (const index of [1, 3, 0, 2]) await begun[index]!();
  } catch (error) {
    if (isStaleTokenError(error)) refused += 1;
    else errors[String(error)] = (errors[String(error)] ?? 0) + 1;
    throw error;
  } finally {
    running -= 1;
  }
}

process.once('disconnect', () => process.exit());
await QUEUES[queue].consume(queueUrl, run);
answerQuestions<WorkerQuestion>(undefined, (question): WorkerState => {
  if ('blockMs' in question)
    for (const end = performance.now() + question.blockMs; performance.now() < end;);
  return { running, refused, errors };
});
