import { execFile } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { packedTarball } from '../../test/docs/tarball.ts';

const run = promisify(execFile);

/** The package of this checkout, as it is now, unpacked as its users have it: the path of what `import` loads. */
export async function presentVersion(parent: string): Promise<string> {
  return unpacked(await packedTarball(), join(parent, 'new'));
}

/** Commit to compare the checkout with: the last release before it, else the commit before; undefined where neither is here. */
export async function earlierCommit(): Promise<string | undefined> {
  for (const ask of [
    ['describe', '--tags', '--abbrev=0', '--match', 'v*', 'HEAD^'],
    ['rev-parse', '--short', '--verify', '--quiet', 'HEAD^'],
  ]) {
    const found = await run('git', ask).catch(() => undefined);
    if (found !== undefined) return found.stdout.trim();
  }
  return undefined;
}

/** The same of a commit, built with the packages of this checkout. */
export async function versionOf(commit: string, parent: string): Promise<string> {
  const cwd = join(parent, 'source');
  await mkdir(cwd);
  const archive = join(parent, 'source.tar');
  await run('git', ['archive', '--output', archive, commit]);
  await run('tar', ['-xf', archive, '-C', cwd]);
  await symlink(resolve('node_modules'), join(cwd, 'node_modules'));
  await run('npm', ['run', 'build'], { cwd });
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json'], { cwd });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  return unpacked(join(cwd, filename), join(parent, 'old'));
}

async function unpacked(tarball: string, folder: string): Promise<string> {
  await mkdir(folder);
  await run('tar', ['-xzf', tarball, '-C', folder]);
  await symlink(resolve('node_modules'), join(folder, 'node_modules'));
  return join(folder, 'package/dist/esm/index.js');
}
