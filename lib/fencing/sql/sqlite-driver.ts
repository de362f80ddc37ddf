import { statSync } from 'node:fs';
import { RedlockConfigError } from '../../core/errors.ts';
import type { Steps } from '../steps.ts';
import { send, type SqlExecutor, type SqlRow } from './sql-executor.ts';

/** The files that each build of SQLite has opened in this process; another copy of this package has the same list. */
const FILES = Symbol.for('nestjs-fenced-lock/sqlite-files');
const filesByBuild: Map<string, Set<string>> = ((globalThis as any)[FILES] ??= new Map());

const builds = new WeakMap<object, string>();

/**
 * Locks of files belong to a process, and each driver has an SQLite of its own that can't see those of another one. Turns would not
 * do: the first of two drivers that closes a file in WAL mode takes the log away from the other one.
 *
 * The statements touch no file: even to close it would free the locks of the other driver.
 *
 * @param database what has one driver
 * @throws RedlockConfigError when another build of SQLite has one of the files of this connection
 */
export function* refuseSecondDriver(executor: SqlExecutor, database: object): Steps<void> {
  const build = builds.get(database) ?? (yield* askBuild(executor));
  builds.set(database, build);
  const rows: readonly SqlRow[] = yield send(executor, 'PRAGMA database_list');
  for (const { file } of rows) {
    const id = typeof file === 'string' ? fileId(file) : undefined;
    if (id === undefined) continue;
    for (const [other, files] of filesByBuild) {
      if (other === build || !files.has(id)) continue;
      const [version, first] = [build, other].map((each) => each.split(' ')[0]);
      const shown = `over the SQLite file ${String(file)} with two drivers in one process (SQLite ${version} beside ${first})`;
      const fix =
        'neither sees the locks of the other one, so stale writes could be committed, and commits be lost. Use one driver for all access to this file. Nothing was written';
      throw new RedlockConfigError('fence', database, fix, shown);
    }
    filesByBuild.set(build, (filesByBuild.get(build) ?? new Set()).add(id));
  }
}

function* askBuild(executor: SqlExecutor): Steps<string> {
  const sql = 'SELECT sqlite_version() AS version, sqlite_source_id() AS source';
  const [row]: readonly SqlRow[] = yield send(executor, sql);
  const options: readonly SqlRow[] = yield send(executor, 'PRAGMA compile_options');
  return [row!['version'], row!['source'], ...options.map(Object.values)].join(' ');
}

/** The same for every name of a file, and another one when it is made anew. A database in memory, or on a server, has none. */
function fileId(file: string): string | undefined {
  try {
    const { dev, ino, birthtimeNs } = statSync(file, { bigint: true });
    return `${dev}:${ino}:${birthtimeNs}`;
  } catch {
    return undefined;
  }
}
