import { createRequire } from 'node:module';
import { join } from 'node:path';
import { runCommand } from '../redis-servers/run-command.ts';

const TIMEOUT_MS = 600_000;

/**
 * Runs the install script of better-sqlite3 if its native part is missing. It is the only dependency that needs its script, and
 * `npm ci` runs no scripts (.npmrc). If that fails, the tests on SQLite fail, and no others.
 */
export async function installSqlite(): Promise<void> {
  if (isSqliteInstalled()) return;
  const say = (text: string) => process.stderr.write(`\nSQLite: ${text}\n`);
  say('better-sqlite3 is being downloaded, or compiled where there is no download; once.');
  const args = ['rebuild', 'better-sqlite3', '--ignore-scripts=false'];
  await runCommand('npm', args, { timeoutMs: TIMEOUT_MS }).catch((error: unknown) => {
    say(
      `tests on it will fail. The download needs github.com; compiling needs Python, make and a C++ compiler. ` +
        `'npm ${args.join(' ')}' tries again. ${String(error)}`,
    );
  });
}

function isSqliteInstalled(): boolean {
  try {
    const Database = createRequire(join(process.cwd(), 'package.json'))('better-sqlite3');
    new Database(':memory:').close();
    return true;
  } catch {
    return false;
  }
}
