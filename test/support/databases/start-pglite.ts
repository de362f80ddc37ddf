import { PGlite } from '@electric-sql/pglite';
import { access, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cachedFolder } from '../redis-servers/cached-folder.ts';

const PACKAGE = 'node_modules/@electric-sql/pglite/package.json';
const ARCHIVE = 'data.tar';

/** A PGlite with an empty database: a copy of the first one that was ever made, because that takes several times as long. */
export async function startPglite(): Promise<PGlite> {
  const { version } = JSON.parse(await readFile(PACKAGE, 'utf8')) as { version: string };
  const folder = await cachedFolder(
    `pglite-${version}`,
    async (target) => {
      const lite = await PGlite.create();
      const dump = await lite.dumpDataDir('none');
      await lite.close();
      await writeFile(join(target, ARCHIVE), Buffer.from(await dump.arrayBuffer()));
    },
    (target) => access(join(target, ARCHIVE)),
  );
  return PGlite.create({ loadDataDir: new Blob([await readFile(join(folder, ARCHIVE))]) });
}
