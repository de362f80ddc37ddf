import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

const STALE_MS = 60 * 60_000;

/**
 * A folder in the user's cache, made once and kept. It appears under its name only when it is complete, so several
 * processes may come at the same time, and one may be killed half-way. A folder that `check` rejects is made again.
 */
export async function cachedFolder(
  name: string,
  make: (folder: string) => Promise<void>,
  check: (folder: string) => Promise<unknown>,
): Promise<string> {
  const root = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'nestjs-fenced-lock');
  const folder = join(root, name);
  if (await passes(check, folder)) return folder;
  const attempt = `${folder}.${process.pid}-${randomBytes(4).toString('hex')}`;
  try {
    await removeStale(root, `${name}.`);
    await mkdir(attempt, { recursive: true });
    await make(attempt);
    await check(attempt);
    // A folder that could not be used before is moved out of the way; what another process has finished meanwhile is kept.
    if (!(await passes(check, folder))) {
      await rename(folder, `${attempt}-broken`).catch(ignoreMissing);
      await rename(attempt, folder).catch(ignoreExisting);
    }
  } finally {
    await rm(attempt, { recursive: true, force: true });
    await rm(`${attempt}-broken`, { recursive: true, force: true });
  }
  await check(folder);
  return folder;
}

async function passes(check: (folder: string) => Promise<unknown>, folder: string) {
  try {
    await check(folder);
    return true;
  } catch {
    return false;
  }
}

/** The leftovers of processes that were killed while they made the folder. */
async function removeStale(root: string, prefix: string): Promise<void> {
  const names = await readdir(root).catch(() => []);
  for (const name of names.filter((each) => each.startsWith(prefix))) {
    const path = join(root, name);
    const age =
      Date.now() -
      (await stat(path).then(
        (found) => found.mtimeMs,
        () => Date.now(),
      ));
    if (age > STALE_MS) await rm(path, { recursive: true, force: true });
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
}
