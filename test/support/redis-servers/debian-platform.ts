import { readFile } from 'node:fs/promises';
import { runCommand } from './run-command.ts';

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
