import { runCommand } from '../redis-servers/run-command.ts';

const TIMEOUT_MS = 600_000;

/**
 * Runs the install script of better-sqlite3 if its native part is missing. It is the only dependency that needs its script, and
 * `npm ci` runs no scripts (.npmrc). Only the campaign calls this: `npm test` has drivers of SQLite that need no compiler. If it fails,
 * what runs on better-sqlite3 fails, and nothing else.
 */
export async function installSqlite(): Promise<void> {
  if (await isSqliteInstalled()) return;
  const say = (text: string) => process.stderr.write(`\nSQLite: ${text}\n`);
  say('better-sqlite3 is being downloaded, or compiled where there is no download; once.');
  const args = ['rebuild', 'better-sqlite3', '--ignore-scripts=false'];
  await runCommand('npm', args, { timeoutMs: TIMEOUT_MS }).catch((error: unknown) => {
    say(
      `what runs on it will fail. The download needs github.com; compiling needs Python, make and a C++ compiler. ` +
        `'npm ${args.join(' ')}' tries again. ${String(error)}`,
    );
  });
}

/** Asks another process: jest remembers that a file was missing. */
function isSqliteInstalled(): Promise<boolean> {
  const open = "new (require('better-sqlite3'))(':memory:')";
  return runCommand(process.execPath, ['-e', open]).then(
    () => true,
    () => false,
  );
}
