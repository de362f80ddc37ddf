import { access, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { cachedFolder } from './cached-folder.ts';
import { AptDownload } from './apt-download.ts';
import { debianPlatform } from './debian-platform.ts';
import type { FoundRedis, NotFound } from './redis-server.ts';
import { serverVersion } from './run-command.ts';
import { completeLibraries, libraryPathOf } from './shared-libraries.ts';

/** Their check tool is the server itself: which of the two it is, it decides by the name it is started with. */
const PACKAGES = ['redis-tools', 'valkey-tools'] as const;

/**
 * The Debian package, unpacked into a cache folder: neither root nor an installation is needed. Downloads about 1 MB
 * the first time.
 */
export async function findPackage(): Promise<FoundRedis | NotFound> {
  try {
    const folder = await cachedFolder(`redis-${await debianPlatform()}`, unpack, inspect);
    return { way: 'package', ...(await inspect(folder)) };
  } catch (error) {
    return { reason: error instanceof Error ? error.message : String(error) };
  }
}

async function unpack(folder: string): Promise<void> {
  await using download = await AptDownload.create();
  const failures: string[] = [];
  for (const name of PACKAGES) {
    try {
      const archive = await download.extract(name, folder);
      const checkTool = join('usr/bin', name.replace('-tools', '-check-rdb'));
      await access(join(folder, checkTool));
      await symlink(checkTool, join(folder, 'redis-server'));
      return await completeLibraries(join(folder, checkTool), archive, folder, download);
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(failures.join('; '));
}

async function inspect(folder: string) {
  const command = join(folder, 'redis-server');
  const libraryPath = await libraryPathOf(folder);
  return { command, libraryPath, version: await serverVersion(command, libraryPath) };
}
