import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { blocksOf, fileNameOf, readPage } from './pages.ts';

const PACKAGES: Readonly<Record<string, string>> = {
  'nestjs-fenced-lock/fencing': resolve('lib/fencing/index.ts'),
  'nestjs-fenced-lock/testing': resolve('lib/testing/index.ts'),
  'nestjs-fenced-lock': resolve('lib/index.ts'),
};

const folders: string[] = [];

/** A new folder with these files, in which the packages of this repository are found; `removeFolders` removes it. */
export function writeFolder(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'docs-'));
  folders.push(folder);
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

export function removeFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
}

/**
 * Writes every block of a page that names its file, as a program that runs here: with this package as it is, and with servers
 * that exist in place of those of the page.
 */
export function writePrograms(page: string, urls: readonly string[] = []): string {
  const named = blocksOf(readPage(page)).flatMap(({ code }) => {
    const name = fileNameOf(code);
    return name === undefined ? [] : [[name, runnable(code, urls)] as const];
  });
  return writeFolder(Object.fromEntries(named));
}

function runnable(code: string, urls: readonly string[]): string {
  let text = code
    .replaceAll(/redis:\/\/10\.0\.0\.(\d)/g, (_, number) => urls[number - 1]!)
    .replaceAll('redis://localhost:6379', () => urls[0]!)
    .replaceAll(/(from '\.\/[\w.-]+)\.js'/g, "$1'");
  for (const [name, path] of Object.entries(PACKAGES))
    text = text.replaceAll(`'${name}'`, `'${path}'`);
  return /^it\(/m.test(text) ? PLAN + text : text;
}

/** A block of tests is no spec of ours: {@link runTests} runs what it declares. */
const PLAN = `
import { expect } from '@jest/globals';
export const tests: (() => unknown)[] = [];
export const before: (() => unknown)[] = [];
export const after: (() => unknown)[] = [];
const it = (_name: string, test: () => unknown) => tests.push(test);
const beforeEach = (hook: () => unknown) => before.push(hook);
const afterEach = (hook: () => unknown) => after.push(hook);
`;

/** Runs the tests of such a block, and says how many passed. */
export async function runTests(file: string): Promise<number> {
  const { tests, before, after } = (await import(file)) as Record<string, (() => unknown)[]>;
  for (const test of tests!) {
    for (const hook of before!) await hook();
    try {
      await test();
    } finally {
      for (const hook of after!) await hook();
    }
  }
  return tests!.length;
}

/** Settings of a new Nest application, ES modules and all, with which the compiler finds this package as it is here. */
export function compilerSettings(): string {
  const paths = Object.fromEntries(Object.entries(PACKAGES).map(([name, path]) => [name, [path]]));
  const compilerOptions = { paths };
  return JSON.stringify({
    extends: resolve('tsconfig.json'),
    compilerOptions,
    include: ['**/*.ts'],
  });
}
