import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { cachedFolder } from './cached-folder.ts';
import { AptDownload, debianPlatform } from './debian.ts';
import { type RequestTarget, respRequest } from './resp-request.ts';
import { runCommand } from './run-command.ts';

const LIBRARY = 'libfaketime.so.1';
/** Far more than a slow machine needs for one answer. */
const TRIAL_LIMIT_MS = 20_000;

/** libfaketime, as an executable of this machine has to be started for its clock to follow a file. */
export interface ClockLibrary {
  /** For LD_PRELOAD: names, not paths, which could hold a space. */
  readonly preload: string;
  /** For LD_LIBRARY_PATH. */
  readonly libraryPath: string;
  /** What the library itself wants to know. */
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
      `the clock of a redis-server is moved by libfaketime and LD_PRELOAD, which is done on Linux only, and this is ${process.platform}`,
    );
  }
  const folder = await findFolder();
  const library = await libraryFor(executable, folder);
  const environment = {
    ...process.env,
    ...library.settings,
    FAKETIME: '+0',
    LD_PRELOAD: library.preload,
    LD_LIBRARY_PATH: library.libraryPath,
  };
  await runCommand(executable.command, ['--version'], { environment, timeoutMs: TRIAL_LIMIT_MS });
  return library;
}

/** Installed on this machine, where it works, else the Debian package. */
async function findFolder(): Promise<string> {
  const below = await readdir('/usr/lib').catch(() => []);
  const multiarch = below.filter((name) => name.includes('-linux-'));
  const folders = [...multiarch.map((name) => join('/usr/lib', name)), '/usr/lib64'];
  for (const folder of folders.map((each) => join(each, 'faketime'))) {
    const works = existsSync(join(folder, LIBRARY)) && missingSymbols(folder);
    if (await Promise.resolve(works).catch(() => false)) return folder;
  }
  return findPackage().catch((cause: unknown) => {
    throw new Error(
      'libfaketime is needed to move the clock of a redis-server: install it (apt-get install libfaketime, dnf install libfaketime), or on Debian let apt-get reach its package source',
      { cause },
    );
  });
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
 * With jemalloc in a library of its own, as Debian builds Redis, there is a knot: its first allocation asks for the
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

const SHOWN_LIMIT_MS = 15_000;
/** How far the answer may be from what is expected besides the time that the question took. */
const TOLERANCE_MS = 3;

/** The wall clock of one server: the real one plus an offset, which is kept in a file in the directory of the server. */
export class MovableClock {
  #offsetMs = 0;

  constructor(
    private readonly library: ClockLibrary,
    private readonly directory: string,
  ) {}

  /** Not in the environment of the guard, which would wait for the same file. */
  prefix(): string[] {
    return ['env', `LD_PRELOAD=${this.library.preload}`];
  }

  /** What the server needs in its environment. */
  environment(): NodeJS.ProcessEnv {
    return {
      ...this.library.settings,
      LD_LIBRARY_PATH: this.library.libraryPath,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      // Either would take the place of the file.
      FAKETIME: undefined,
      FAKETIME_NO_CACHE: undefined,
    };
  }

  async set(offsetMs: number): Promise<void> {
    this.#offsetMs = offsetMs;
    await this.write();
  }

  /** Writes the offset into the directory, which may have been emptied. Never half-written: it may be read any time. */
  async write(): Promise<void> {
    const sign = this.#offsetMs < 0 ? '-' : '+';
    const seconds = (Math.abs(this.#offsetMs) / 1000).toFixed(6);
    await writeFile(`${this.#file}.next`, `${sign}${seconds}\n`);
    await rename(`${this.#file}.next`, this.#file);
  }

  /**
   * Resolves when TIME shows the offset, at the latest a second after the file was written.
   * @throws {Error} when it does not in time
   */
  async shown(server: RequestTarget): Promise<void> {
    const deadline = performance.now() + SHOWN_LIMIT_MS;
    for (;;) {
      const answer = await this.#distanceMs(server).catch((error: unknown) => error as Error);
      if (typeof answer === 'number' && Math.abs(answer) <= TOLERANCE_MS) return;
      if (performance.now() > deadline) {
        const cause = typeof answer === 'number' ? undefined : answer;
        const seen = cause ? 'cannot be asked' : `is ${String(answer)} ms away from it`;
        throw new Error(`the clock was moved by ${this.#offsetMs} ms, and TIME ${seen}`, { cause });
      }
      await sleep(Math.min(20, 1000 - (Date.now() % 1000)));
    }
  }

  /** How far TIME is from what it should be; 0 when it may be right. */
  async #distanceMs(server: RequestTarget): Promise<number> {
    const before = Date.now() + this.#offsetMs;
    const [seconds, micros] = (await respRequest(server, ['TIME'])).split(' ').map(Number);
    const after = Date.now() + this.#offsetMs;
    const shown = (seconds ?? Number.NaN) * 1000 + (micros ?? Number.NaN) / 1000;
    if (shown < before) return shown - before;
    return shown > after ? shown - after : 0;
  }

  /**
   * libfaketime before 0.9.11 leaves two files for programs that the server might start, which nothing removes after a
   * SIGKILL. The server itself needs them no longer once it runs.
   */
  async removeSharedMemory(pid: number): Promise<void> {
    for (const name of [`sem.faketime_sem_${pid}`, `faketime_shm_${pid}`]) {
      await rm(join('/dev/shm', name), { force: true });
    }
  }

  get #file(): string {
    return join(this.directory, 'clock');
  }
}
