import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Pool } from 'pg';
import { removeProjects, writePrograms } from '../../test/docs/consumer-project.ts';
import { blocksOf, readPage } from '../../test/docs/pages.ts';
import { startPostgres } from '../../test/support/databases/postgres-server.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';

// Bun in the place of Node.js: the contract of a lock server over each client library, and the quick start in two processes.

const QUICK_START = 'docs/quick-start.md';

/** Of the two packages of Bun the other one has the program, for this platform. */
const PLATFORMS = 'campaign/bun/node_modules/@oven';
const BUN = join(PLATFORMS, readdirSync(PLATFORMS)[0]!, 'bin/bun');

/** Specs that need of jest no more than Bun has. */
const SPECS = [
  'contract/redis-lock-node',
  'contract/node-redis',
  'e2e/node-redis',
  'e2e/redis-node-connection',
  'e2e/redis-node-turns',
  'unit/redis/client-source',
].map((name) => `./test/${name}.spec.ts`);

/** Builds the report of the quick start, says what came of it, and ends by itself. */
const MAIN = `
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { ReportService } from './report.service.js';

async function main() {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  const said = await app.get(ReportService).build('monday').catch((error) => error.code);
  await app.close();
  console.log('bun' in process.versions, said);
}
void main();
`;

async function playQuickStart(): Promise<void> {
  const [server] = await startRedisServers(1, { own: true });
  const database = await startPostgres();
  const pool = new Pool({ connectionString: database.url });
  try {
    const tables = blocksOf(readPage(QUICK_START)).find(({ language }) => language === 'sql')!;
    await pool.query(tables.code);
    const { folder } = await writePrograms(QUICK_START, [server!.url], {
      'main.ts': MAIN,
    });
    const env = { ...process.env, DATABASE_URL: database.url };
    const run = async () => {
      const { stdout } = await promisify(execFile)(BUN, [join(folder, 'dist/main.js')], { env });
      return stdout.trim();
    };
    const printed = await Promise.all([run(), run()]);
    assert.deepEqual(printed.sort(), ['true LOCK_BUSY', 'true report for monday']);
  } finally {
    await pool.end();
    await Promise.all([server!.stop(), database.stop()]);
    removeProjects();
  }
}

await playQuickStart();
process.stdout.write(
  'The quick start ran in two processes of Bun: one built the report, one was told that it is busy.\n',
);
const { status } = spawnSync(BUN, ['test', '--timeout', '120000', ...SPECS], { stdio: 'inherit' });
process.exitCode = status ?? 1;
