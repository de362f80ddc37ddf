import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { cachedFolder } from '../support/redis-servers/cached-folder.ts';

/** Files that `npm run build` and `npm pack` read. */
const INPUTS = [
  'lib',
  'package.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'tsconfig.cjs.json',
  'prune-declarations.mjs',
  'README.md',
  'CHANGELOG.md',
  'LICENSE',
];

const run = promisify(execFile);

/**
 * The tarball that `npm publish` would upload, built and packed beside the checkout: specs run at the same time, and before
 * anything is built. It is kept until one of its inputs changes.
 */
export async function packedTarball(): Promise<string> {
  const inputs = digestOfInputs();
  const folder = await cachedFolder(`package-of-${digestOf(resolve())}`, pack, async (made) => {
    if ((await readFile(join(made, 'inputs'), 'utf8')) !== inputs)
      throw new Error('The package has changed since it was packed');
  });
  return join(folder, 'package.tgz');

  async function pack(made: string): Promise<void> {
    const cwd = join(made, 'build');
    for (const path of INPUTS) cpSync(path, join(cwd, path), { recursive: true });
    symlinkSync(resolve('node_modules'), join(cwd, 'node_modules'));
    await run('npm', ['run', 'build'], { cwd });
    const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json'], { cwd });
    const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
    await rename(join(cwd, filename), join(made, 'package.tgz'));
    await rm(cwd, { recursive: true });
    await writeFile(join(made, 'inputs'), inputs);
  }
}

function digestOfInputs(): string {
  const files = INPUTS.flatMap((path) =>
    path === 'lib'
      ? readdirSync(path, { recursive: true, encoding: 'utf8' })
          .filter((name) => name.endsWith('.ts'))
          .map((name) => join(path, name))
      : [path],
  );
  return digestOf(files.map((path) => `${path}\n${readFileSync(path, 'utf8')}`).join('\0'));
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
