import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { transformSync, type Options } from '@swc/core';
import type * as Library from '../../lib/index.ts';
import { changed } from './changed.ts';
import { AMBIENT, SHAPES } from './surroundings.ts';
import { blocksOf, fileNameOf, readPage } from './pages.ts';
import { packedTarball } from './tarball.ts';

export type Format = 'module' | 'commonjs';

const NAME = 'nestjs-fenced-lock';
const run = promisify(execFile);
const folders: string[] = [];

/** Options of a new Nest application, and the strictest that an application may add. */
const COMPILER_OPTIONS = {
  target: 'ES2022',
  lib: ['ES2023', 'ESNext.Disposable'],
  module: 'nodenext',
  moduleResolution: 'nodenext',
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  isolatedModules: true,
  esModuleInterop: true,
  skipLibCheck: true,
  rootDir: '.',
  outDir: 'dist',
};

/** What the compiler options mean to a compiler that sees one file. */
const AS_COMPILED: Options = {
  swcrc: false,
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
  },
};

/** The entries, by the names that a reader writes. */
const ENTRIES = `
export * as main from '${NAME}';
export * as fencing from '${NAME}/fencing';
export * as core from '${NAME}/core';
export * as jobs from '${NAME}/jobs';
export * as leader from '${NAME}/leader';
export * as once from '${NAME}/once';
export * as telemetry from '${NAME}/telemetry';
export * as postgres from '${NAME}/postgres';
export * as schedule from '${NAME}/schedule';
export * as terminus from '${NAME}/terminus';
export * as testing from '${NAME}/testing';
`;

/**
 * A new project in a folder of its own, in which this package is installed from its tarball, beside its peers and what the
 * files import.
 */
export class ConsumerProject {
  private constructor(
    readonly folder: string,
    private readonly files: readonly string[],
  ) {}

  /** @param packages folders of packages beside that of the repository, which come first */
  static async write(
    files: Readonly<Record<string, string>>,
    format: Format = 'module',
    packages: readonly string[] = [],
  ): Promise<ConsumerProject> {
    const installed = [...packages, 'node_modules'];
    const folder = mkdtempSync(join(realpathSync(tmpdir()), 'docs-'));
    folders.push(folder);
    const all = {
      ...files,
      'entries.ts': ENTRIES,
      'ambient.d.ts': AMBIENT + shapesBeside(installed),
      'package.json': JSON.stringify({ private: true, type: format }),
      'tsconfig.json': JSON.stringify({ compilerOptions: COMPILER_OPTIONS, exclude: ['dist'] }),
    };
    for (const [name, text] of Object.entries(all)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    await install(join(folder, 'node_modules'), Object.values(all).join('\n'), installed);
    const sources = Object.keys(all).filter((name) => /(?<!\.d)\.ts$/.test(name));
    return new ConsumerProject(folder, sources);
  }

  /** Compiles the project. Returns what the compiler says, which is nothing when all is well. */
  async compile(...options: readonly string[]): Promise<string> {
    const tsc = resolve('node_modules/typescript/bin/tsc');
    const command = [tsc, '-p', this.folder, '--pretty', 'false', ...options];
    const compiling = run(process.execPath, command, { cwd: this.folder });
    const { stdout } = await compiling.catch((error: { stdout: string }) => error);
    return stdout;
  }

  /** Compiles each file for itself, as the compiler options allow, without a look at types: that takes a tenth of the time. */
  transpile(format: Format): void {
    const type = format === 'module' ? 'es6' : 'commonjs';
    for (const name of this.files) {
      const target = join(this.folder, 'dist', name.replace(/\.ts$/, '.js'));
      mkdirSync(dirname(target), { recursive: true });
      const source = readFileSync(join(this.folder, name), 'utf8');
      writeFileSync(target, transformSync(source, { ...AS_COMPILED, module: { type } }).code);
    }
  }

  /** Loads what was compiled from one of the files. */
  load(file: string): Promise<Record<string, any>> {
    return import(join(this.folder, 'dist', file.replace(/\.ts$/, '.js')));
  }

  /** The package of this project. */
  async loadPackage(): Promise<typeof Library> {
    return (await this.load('entries.ts')).main;
  }

  /** Runs a file in a Node.js process of its own, and returns what it prints. */
  async run(file: string, environment: Readonly<Record<string, string>> = {}): Promise<string> {
    const path = join(this.folder, 'dist', file.replace(/\.ts$/, '.js'));
    const env = { ...process.env, ...environment };
    // One that does not end is killed before the test that waits for it is over.
    const options = { cwd: this.folder, env, timeout: 60_000, killSignal: 'SIGKILL' } as const;
    const { stdout } = await run(process.execPath, [path], options);
    return stdout;
  }
}

/** The package from its tarball; everything else as it is installed in the repository. */
async function install(folder: string, code: string, installed: readonly string[]): Promise<void> {
  const target = join(folder, NAME);
  mkdirSync(target, { recursive: true });
  await run('tar', ['-xzf', await packedTarball(), '-C', target, '--strip-components=1']);
  const { peerDependencies } = JSON.parse(readFileSync(join(target, 'package.json'), 'utf8'));
  const imported = code.matchAll(/(?:from|import|import\() ?'((?:@[\w-]+\/)?[\w-]+)/g);
  const names = new Set([
    '@types/node',
    '@jest/globals',
    ...Object.keys(peerDependencies),
    ...[...imported].flatMap(([, name]) => [name!, `@types/${name}`]),
  ]);
  for (const name of names) {
    const source = folderOf(name, installed);
    if (name === NAME || source === undefined) continue;
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    symlinkSync(resolve(source), join(folder, name));
  }
}

function folderOf(name: string, installed: readonly string[]): string | undefined {
  return installed.map((folder) => join(folder, name)).find((folder) => existsSync(folder));
}

/** Declares what is not installed. */
function shapesBeside(installed: readonly string[]): string {
  const missing = Object.entries(SHAPES).filter(([name]) => !folderOf(name, installed));
  return missing.map(([name, shape]) => `declare module '${name}' ${shape}\n`).join('');
}

export function removeProjects(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
}

/**
 * The files that a reader has in the end: blocks of a page that name them, with the changes of its later `diff` blocks. Only the
 * addresses of servers are others: those given exist.
 */
export function programsOf(
  page: string,
  urls: readonly string[] = [],
  format: Format = 'module',
): Record<string, string> {
  const files: Record<string, string> = {};
  for (const { language, code } of blocksOf(readPage(page))) {
    const text = withServers(inFormat(code, format), urls);
    const name = fileNameOf(language === 'diff' ? code.slice(1) : code);
    if (name === undefined) continue;
    if (language !== 'diff') files[name] = text;
    // A page may also say what to change in the program of another one.
    else if (files[name] !== undefined) files[name] = changed(files[name], text);
  }
  return files;
}

/** "Leave out the `.js` in the imports", says the quick start of NestJS 11. */
function inFormat(code: string, format: Format): string {
  return format === 'module' ? code : code.replaceAll(/(from '\.\/[\w.-]+)\.js'/g, "$1'");
}

export function withServers(code: string, urls: readonly string[]): string {
  return code
    .replaceAll(/redis:\/\/10\.0\.0\.(\d)/g, (address, number) => urls[number - 1] ?? address)
    .replaceAll('rediss://user:password@primary.example:6379', (address) => urls[0] ?? address)
    .replaceAll('redis://localhost:6379', (address) => urls[0] ?? address);
}

/** The programs of a page in a project of their own, ready to run. The specs of the package look at their types. */
export async function writePrograms(
  page: string,
  urls: readonly string[] = [],
  others: Readonly<Record<string, string>> = {},
  format: Format = 'module',
): Promise<ConsumerProject> {
  const files = { ...programsOf(page, urls, format), ...others };
  const project = await ConsumerProject.write(files, format);
  project.transpile(format);
  return project;
}

/** Runs the tests of a block under the names that a test runner gives it, and says how many passed, each as often as said. */
export async function runTests(project: ConsumerProject, file: string, times = 1): Promise<number> {
  const tests: (() => unknown)[] = [];
  const before: (() => unknown)[] = [];
  const after: (() => unknown)[] = [];
  const names = {
    it: (_name: string, test: () => unknown) => tests.push(test),
    beforeEach: (hook: () => unknown) => before.push(hook),
    afterEach: (hook: () => unknown) => after.push(hook),
  };
  const ours = Object.keys(names).map((name) => [name, Reflect.get(globalThis, name)] as const);
  Object.assign(globalThis, names);
  try {
    await project.load(file);
  } finally {
    Object.assign(globalThis, Object.fromEntries(ours));
  }
  for (const test of Array.from({ length: times }, () => tests).flat()) {
    for (const hook of before) await hook();
    try {
      await test();
    } finally {
      for (const hook of after) await hook();
    }
  }
  return tests.length;
}
