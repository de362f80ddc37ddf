import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { AptDownload } from './apt-download.ts';
import { runCommand } from './run-command.ts';

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

/** The names of the packages which an archive depends on; the first one where there is a choice. */
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
