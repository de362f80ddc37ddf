import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { AptDownload } from '../redis-servers/apt-download.ts';
import { cachedFolder } from '../redis-servers/cached-folder.ts';
import { debianPlatform } from '../redis-servers/debian-platform.ts';
import { completeLibraries, libraryPathOf } from '../redis-servers/shared-libraries.ts';

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
