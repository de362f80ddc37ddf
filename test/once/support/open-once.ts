import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { NestFactory } from '@nestjs/core';
import { RedlockModule } from '../../../lib/index.ts';
import { OnceService } from '../../../lib/once/index.ts';
import { postgresNode } from '../../../lib/postgres/index.ts';
import { createFencingToken } from '../../../lib/testing/index.ts';
import { OPEN, writeEffect, type OnceDatabase } from './databases.ts';
import { at, doSlowly, type Stop } from './stops.ts';

/** Runs that stay at their points, until the last one ends their process. */
export interface KilledRuns {
  readonly kind: string;
  /** SQLite: a folder with a file for each key, since a connection has one transaction at a time. */
  readonly url: string;
  readonly redisUrl?: string;
  /** The answer is stored beside the effect, and not in its transaction. */
  readonly isBeside?: boolean;
  readonly runs: readonly Stop[];
}

/** Calls work that is to be done once, and gives its answer as text. */
export type Call = (key: string) => Promise<string>;

/** One process of a fleet. */
export interface OnceProcess {
  readonly database: OnceDatabase;
  readonly call: Call;
  close(): Promise<unknown>;
}

/** What the work of a key gives; each run of it gives another answer. */
async function work(database: OnceDatabase, key: string, tx: unknown): Promise<object> {
  const effect = randomUUID();
  await writeEffect(database, key, effect, tx);
  await at('the work is done');
  return { effect, text: '5 € \u{1f4b6} \ud800 \0' };
}

/** Opens the application. Without Redis, the locks are in the same database. */
async function openOnce(
  kind: string,
  url: string,
  redisUrl: string | undefined,
): Promise<OnceProcess> {
  const database = OPEN[kind]!(url);
  const nodes = [redisUrl ?? postgresNode(database.pool!)];
  // Locks of processes that were killed are to end soon.
  const locks = RedlockModule.forRoot({ nodes, fence: database.fence, ttl: '1s', wait: '10m' });
  const application = { module: class Application {}, imports: [locks], providers: [OnceService] };
  const app = await NestFactory.createApplicationContext(application, { logger: false });
  const once = app.get(OnceService);
  const call: Call = async (key) => {
    const run = { before: doSlowly, work: (tx: unknown) => work(database, key, tx) };
    const answer = await once.run({ key, payload: { key }, ...run });
    await at('the answer is known');
    return JSON.stringify(answer);
  };
  return {
    database,
    call,
    async close() {
      await app.close();
      await database.close();
    },
  };
}

export const BESIDE_DDL =
  'CREATE TABLE IF NOT EXISTS beside (name VARCHAR(200) PRIMARY KEY, answer TEXT, ends BIGINT)';

/**
 * The control: the order of the idempotency utility of AWS Powertools. A record says that the work is in progress, and until when; then
 * the work commits; then the record gets the answer.
 */
function openBeside(kind: string, url: string): OnceProcess {
  const database = OPEN[kind]!(url);
  const { run, fence } = database;
  const call: Call = async (key) => {
    const [row] = await run(`SELECT answer, ends FROM beside WHERE name = '${key}'`);
    if (row?.answer) return Buffer.from(row.answer, 'base64').toString();
    if (row && Number(row.ends) > Date.now()) throw new Error('in progress');
    await run(`DELETE FROM beside WHERE name = '${key}'`);
    await run(`INSERT INTO beside VALUES ('${key}', NULL, ${Date.now() + 1_000}) RETURNING 1`);
    await doSlowly();
    const token = createFencingToken(`${key} ${randomUUID()}`);
    const answer = JSON.stringify(await fence.transaction(token, (tx) => work(database, key, tx)));
    const text = Buffer.from(answer).toString('base64');
    await run(`UPDATE beside SET answer = '${text}' WHERE name = '${key}'`);
    await at('the answer is known');
    return answer;
  };
  return { database, call, close: async () => database.close() };
}

/** The database of a key. */
export const urlFor = ({ kind, url }: KilledRuns, key: string): string =>
  kind === 'SQLite' ? join(url, `${key}.db`) : url;

/** Opens each database once. */
export function openEach(settings: KilledRuns) {
  const opened = new Map<string, Promise<OnceProcess>>();
  const { kind, redisUrl, isBeside } = settings;
  const open = async (url: string) =>
    isBeside ? openBeside(kind, url) : openOnce(kind, url, redisUrl);
  return {
    for(key: string): Promise<OnceProcess> {
      const url = urlFor(settings, key);
      if (!opened.has(url)) opened.set(url, open(url));
      return opened.get(url)!;
    },
    async close() {
      for (const each of opened.values()) await (await each).close();
    },
  };
}
