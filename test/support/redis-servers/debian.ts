import { access, mkdir, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cachedFolder } from './cached-folder.ts';
import { runCommand } from './run-command.ts';

/**
 * Fetches Debian packages without installing them and without root: apt keeps everything it writes in a temporary
 * directory. The machine's package lists are read when there are any, otherwise private ones are fetched.
 */
export class AptDownload {
  #hasPrivateLists = false;

  private constructor(private readonly directory: string) {}

  static async create(): Promise<AptDownload> {
    const directory = await mkdtemp(join(tmpdir(), 'fenced-lock-apt-'));
    for (const name of ['lists/partial', 'cache/archives/partial', 'log']) {
      await mkdir(join(directory, name), { recursive: true });
    }
    return new AptDownload(directory);
  }

  /** Unpacks one package into `folder` and resolves with the path of its archive, which lives as long as this object. */
  async extract(name: string, folder: string): Promise<string> {
    const target = join(this.directory, name);
    await mkdir(target, { recursive: true });
    try {
      await this.#apt(['download', name], target);
    } catch (error) {
      if (this.#hasPrivateLists) throw error;
      // No lists, or older ones than what the archive still holds.
      this.#hasPrivateLists = true;
      await this.#apt(['update'], this.directory);
      await this.#apt(['download', name], target);
    }
    const archive = (await readdir(target)).find((file) => file.endsWith('.deb'));
    if (!archive) throw new Error(`apt-get download ${name} left no package`);
    await runCommand('dpkg', ['-x', join(target, archive), folder]);
    return join(target, archive);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }

  #apt(args: readonly string[], cwd: string): Promise<string> {
    const settings = {
      'Dir::Cache': join(this.directory, 'cache'),
      'Dir::Log': join(this.directory, 'log'),
      // Root's apt gives downloads to the user _apt, who may not write into our directories.
      'APT::Sandbox::User': '',
      'APT::Get::Update::Error-Mode': 'persistent-failure',
      'Acquire::Languages': 'none',
      ...(this.#hasPrivateLists && { 'Dir::State::lists': join(this.directory, 'lists') }),
    };
    const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    return runCommand('apt-get', [...args, '-qq', ...options], { cwd });
  }
}

/**
 * Distribution, release and architecture, as `debian-bookworm-amd64`: a package unpacked on one of them is of no use on
 * another, for example when a home directory is shared.
 * @throws {Error} when this is no Debian or Ubuntu
 */
export async function debianPlatform(): Promise<string> {
  try {
    await runCommand('apt-get', ['--version']);
    await runCommand('dpkg', ['--version']);
  } catch {
    throw new Error('this is not a Debian or Ubuntu: apt-get and dpkg do not run');
  }
  const release = await readFile('/etc/os-release', 'utf8');
  const value = (name: string) =>
    new RegExp(`^${name}="?([\\w.-]+)`, 'm').exec(release)?.[1] ?? 'unknown';
  const architecture = (await runCommand('dpkg', ['--print-architecture'])).trim();
  return [value('ID'), value('VERSION_CODENAME'), architecture].join('-');
}

/**
 * Adds the packages of the libraries which this machine lacks, until the executable can be loaded: a slim image may
 * lack any of them, and an installed library is better than a second one.
 */
export async function completeLibraries(
  executable: string,
  archive: string,
  folder: string,
  download: AptDownload,
): Promise<void> {
  const seen = new Set<string>();
  let level = [archive];
  for (;;) {
    const missing = await missingLibraries(executable, await libraryPathOf(folder));
    if (missing.length === 0) return;
    const names = (await Promise.all(level.map(dependenciesOf))).flat();
    const wanted = [...new Set(names)].filter((name) => !seen.has(name));
    if (wanted.length === 0) throw new Error(`no package was found for ${missing.join(', ')}`);
    level = [];
    for (const name of wanted) {
      seen.add(name);
      if (!name.startsWith('lib') || (await isInstalled(name))) continue;
      level.push(await download.extract(name, folder));
    }
  }
}

async function isInstalled(name: string): Promise<boolean> {
  const status = await runCommand('dpkg-query', [
    '--show',
    '--showformat',
    '${Status}',
    name,
  ]).catch(() => '');
  return status.endsWith(' installed');
}

async function missingLibraries(executable: string, libraryPath: string): Promise<string[]> {
  const environment = { ...process.env, LD_LIBRARY_PATH: libraryPath };
  const answer = await runCommand('ldd', [executable], { environment });
  return [...answer.matchAll(/^\s*(\S+) => not found/gm)].map((match) => match[1] ?? '');
}

/** Names of the packages which an archive depends on; the first one where there is a choice. */
async function dependenciesOf(archive: string): Promise<string[]> {
  const depends = await runCommand('dpkg-deb', ['--field', archive, 'Depends']);
  return depends
    .split(',')
    .map((dependency) => /^\s*([a-z0-9][a-z0-9+.-]*)/.exec(dependency)?.[1])
    .filter((name) => name !== undefined);
}

/** The folders below `folder` that hold shared libraries, as LD_LIBRARY_PATH wants them. */
export async function libraryPathOf(folder: string): Promise<string> {
  const files = await readdir(folder, { recursive: true });
  const folders = files
    // Versioned names are what the loader looks for; plugins have none.
    .filter((file) => /\.so\.[\d.]+$/.test(file))
    .map((file) => join(folder, dirname(file)));
  return [...new Set(folders)].join(':');
}

/** An unpacked Debian package. */
export interface UnpackedPackages {
  readonly folder: string;
  readonly libraryPath: string;
}

/**
 * Unpacks Debian packages into a cache folder, with the libraries this machine lacks: neither root nor an installation is
 * needed.
 * @param executable below the folder; it must be there and loadable in the end
 */
export async function unpackDebianPackages(
  name: string,
  packages: readonly string[],
  executable: string,
): Promise<UnpackedPackages> {
  const folder = await cachedFolder(
    `${name}-${await debianPlatform()}`,
    async (target) => {
      await using download = await AptDownload.create();
      const archives: string[] = [];
      for (const each of packages) archives.push(await download.extract(each, target));
      await completeLibraries(join(target, executable), archives[0] ?? '', target, download);
    },
    (target) => access(join(target, executable)),
  );
  return { folder, libraryPath: await libraryPathOf(folder) };
}
