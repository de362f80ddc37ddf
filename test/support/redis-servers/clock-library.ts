import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AptDownload } from './apt-download.ts';
import { cachedFolder } from './cached-folder.ts';
import { debianPlatform } from './debian-platform.ts';
import { runCommand } from './run-command.ts';

const LIBRARY = 'libfaketime.so.1';

/** libfaketime, as an executable of this machine has to be started for its clock to follow a file. */
export interface ClockLibrary {
  /** The value for LD_PRELOAD: names, not paths, which could hold a space. */
  readonly preload: string;
  /** The value for LD_LIBRARY_PATH. */
  readonly libraryPath: string;
  /** The variables that the library itself wants to know. */
  readonly settings: Readonly<Record<string, string>>;
}

/**
 * Finds libfaketime for a redis-server: installed on this machine, else the Debian package in a cache folder, and tries
 * both together.
 * @param executable `command`, and its own `libraryPath` where it has one
 * @throws {Error} that lists the ways and why each one failed
 */
export async function findClockLibrary(executable: {
  readonly command: string;
  readonly libraryPath?: string;
}): Promise<ClockLibrary> {
  if (process.platform !== 'linux') {
    throw new Error(
      `the clock of a redis-server is moved by libfaketime and LD_PRELOAD, which is done on Linux only, and this is ${process.platform}; the libfaketime that brew installs on macOS is not used`,
    );
  }
  const folder = await findFolder(await usualFolders());
  const library = await libraryFor(executable, folder);
  const environment = {
    ...process.env,
    ...library.settings,
    FAKETIME: '+0',
    LD_PRELOAD: library.preload,
    LD_LIBRARY_PATH: library.libraryPath,
  };
  await runCommand(executable.command, ['--version'], { environment });
  return library;
}

async function findFolder(systemFolders: readonly string[]): Promise<string> {
  const reasons: string[] = [];
  for (const folder of systemFolders.map((each) => join(each, 'faketime'))) {
    if (!existsSync(join(folder, LIBRARY))) continue;
    try {
      await missingSymbols(folder);
      return folder;
    } catch (error) {
      reasons.push(messageOf(error));
    }
  }
  const installed = reasons.join('; ') || `no faketime/${LIBRARY} in ${systemFolders.join(', ')}`;
  try {
    return await findPackage();
  } catch (error) {
    throw new Error(
      `libfaketime is needed to move the clock of a redis-server and was not found. Make one of these work:
  system: install it (apt-get install libfaketime, dnf install libfaketime)
    (${installed})
  package: on Debian or Ubuntu, let apt-get reach its package source: no root is needed
    (${messageOf(error)})`,
    );
  }
}

async function usualFolders(): Promise<string[]> {
  const below = await readdir('/usr/lib').catch(() => []);
  const multiarch = below.filter((name) => name.includes('-linux-'));
  const folders = multiarch.map((name) => join('/usr/lib', name));
  return [...folders, '/usr/lib', '/usr/lib64', '/usr/local/lib'];
}

/** The Debian package, unpacked into a cache folder. Downloads about 50 kB the first time. */
async function findPackage(): Promise<string> {
  const folderIn = async (root: string) => {
    const files = await readdir(root, { recursive: true });
    const file = files.find((each) => each.endsWith(`/${LIBRARY}`));
    if (file === undefined) throw new Error(`the package libfaketime holds no ${LIBRARY}`);
    return join(root, file, '..');
  };
  const root = await cachedFolder(
    `faketime-${await debianPlatform()}`,
    async (target) => {
      await using download = await AptDownload.create();
      await download.extract('libfaketime', target);
    },
    async (target) => missingSymbols(await folderIn(target)),
  );
  return folderIn(root);
}

/**
 * The names that the library does not find. Shows also that it works: that a program sees the moved clock.
 * @throws {Error} when it does not, for example because it was made for another architecture
 */
async function missingSymbols(folder: string): Promise<string[]> {
  const env = {
    ...process.env,
    LD_PRELOAD: LIBRARY,
    LD_LIBRARY_PATH: folder,
    FAKETIME: '+1000000',
    FAKETIME_DISABLE_SHM: '1',
    FAKETIME_DEBUG_DLSYM: '1',
  };
  const { stdout, stderr } = await promisify(execFile)('date', ['+%s'], { env });
  const movedMs = Number(stdout) * 1000 - Date.now();
  if (!(movedMs > 900_000_000)) {
    throw new Error(`${join(folder, LIBRARY)} does not move the clock: ${stderr.trim()}`);
  }
  return [...stderr.matchAll(/Cannot find symbol: (\S+)/g)].map((match) => match[1] ?? '');
}

/**
 * If jemalloc is in a library of its own, as Debian builds Redis, there is a knot: its first allocation asks for the
 * time, whereupon libfaketime looks up functions, and one it does not find costs an allocation. Newer versions take
 * a list of names to leave out. Before 0.9.11 the allocator of libc has to take the place of jemalloc.
 */
async function libraryFor(
  { command, libraryPath }: { readonly command: string; readonly libraryPath?: string },
  folder: string,
): Promise<ClockLibrary> {
  const canIgnore = (await readFile(join(folder, LIBRARY))).includes('FAKETIME_IGNORE_SYMBOLS');
  if (!canIgnore && /\0s?dallocx\0/.test(await readFile(command, 'latin1'))) {
    throw new Error(
      `${command} cannot do without jemalloc, and does not start with the libfaketime in ${folder}: install 0.9.11 or newer`,
    );
  }
  const ignored = canIgnore ? (await missingSymbols(folder)).join(',') : '';
  return {
    preload: canIgnore ? LIBRARY : `${LIBRARY}:libc.so.6`,
    libraryPath: [libraryPath, folder].filter(Boolean).join(':'),
    settings: {
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      // The file is read at the first look at the clock in each second: at every look, a script takes three times as long.
      FAKETIME_CACHE_DURATION: '0',
      NO_FAKE_STAT: '1',
      FAKETIME_DISABLE_SHM: '1',
      ...(ignored !== '' && { FAKETIME_IGNORE_SYMBOLS: ignored }),
    },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
