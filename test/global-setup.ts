import { installSqlite } from './support/databases/install-sqlite.ts';
import { findRedisForAll } from './support/redis-servers/index.ts';

/** Finds Redis before all specs, once (and downloads it when need be), hands it to the workers, and installs SQLite. */
export default async function setUp(): Promise<void> {
  const { description } = await findRedisForAll();
  process.stderr.write(`\n${description}\n`);
  await installSqlite();
}
