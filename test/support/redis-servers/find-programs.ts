import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/** The folders that hold all of these programs: those of PATH first, then the others. */
export async function foldersWith(
  programs: readonly string[],
  others: readonly string[] = [],
): Promise<string[]> {
  const onPath = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const found: string[] = [];
  for (const folder of [...onPath, ...others]) {
    const checks = programs.map((program) => access(join(folder, program), constants.X_OK));
    if ((await Promise.allSettled(checks)).every(({ status }) => status === 'fulfilled'))
      found.push(folder);
  }
  return found;
}
