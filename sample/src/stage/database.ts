import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { schema } from '../seats/schema.ts';
import { seatFence } from '../seats/seat-fence.ts';
import { endProcess } from './end-process.ts';

/** PostgreSQL: the user's, or an embedded one that this process started. */
export interface Database {
  readonly url: string;
  readonly description: string;
  stop(): Promise<void>;
}

type DatabaseMessage = { readonly url: string } | { readonly error: string };

/**
 * Uses `DATABASE_URL`, or starts an embedded PostgreSQL, and creates the sample's tables.
 * @param adopt receives what has to be stopped as soon as it exists, so that an interruption in between leaves nothing behind.
 */
export async function openDatabase(adopt: (stop: () => Promise<void>) => void): Promise<Database> {
  const external = process.env['DATABASE_URL'];
  const database = external ? externalDatabase(external) : await embeddedDatabase(adopt);
  await createTables(database.url);
  return database;
}

function externalDatabase(url: string): Database {
  return { url, description: 'PostgreSQL at DATABASE_URL', stop: () => Promise.resolve() };
}

async function embeddedDatabase(adopt: (stop: () => Promise<void>) => void): Promise<Database> {
  const child = fork(fileURLToPath(new URL('database-process.js', import.meta.url)));
  // Nothing of it is worth saving, and while it creates itself it answers no other request.
  const stop = async (): Promise<void> => {
    await endProcess(child, () => child.kill('SIGKILL'));
  };
  adopt(stop);
  const [message] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => [{ error: 'its process ended' }]),
  ])) as [DatabaseMessage];
  if ('error' in message) {
    throw new Error(
      `The embedded PostgreSQL did not start: ${message.error}. Run 'npm ci' again, or set DATABASE_URL to a PostgreSQL server.`,
    );
  }
  return { url: message.url, description: 'embedded PostgreSQL (PGlite)', stop };
}

async function createTables(url: string): Promise<void> {
  const pool = new Pool({ connectionString: url, max: 1 });
  try {
    await pool.query(schema(seatFence(pool)));
  } catch (error) {
    const reason = error instanceof Error ? error.message || error.name : String(error);
    throw new Error(
      `PostgreSQL can't be used: ${reason}. Check DATABASE_URL; its user must be allowed to create a schema (seat_sample).`,
      { cause: error },
    );
  } finally {
    await pool.end().catch(() => undefined);
  }
}
