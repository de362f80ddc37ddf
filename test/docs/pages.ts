import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A Markdown page of this repository. */
export interface Page {
  /** Path from the root of the repository. */
  readonly path: string;
  readonly text: string;
}

/** A fenced block of a page. */
export interface Block {
  readonly page: string;
  /** Number of its first line of code. */
  readonly line: number;
  readonly language: string;
  readonly code: string;
}

const TOP = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'];
const FOLDERS = ['campaign', 'docs', 'sample', 'test'];

/** Pages that people read, all of them. */
export const PAGES: readonly Page[] = [
  ...TOP,
  ...FOLDERS.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md') && !/^(out|site\/dist|.*node_modules)\//.test(name))
      .map((name) => join(folder, name)),
  ),
].map(readPage);

export function readPage(path: string): Page {
  return { path, text: readFileSync(path, 'utf8') };
}

export function blocksOf({ path, text }: Page): Block[] {
  return [...text.matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms)].map((match) => ({
    page: path,
    line: text.slice(0, match.index).split('\n').length + 1,
    language: match[2]!,
    code: match[3]!,
  }));
}

/** The first line of a block may name its file, under which other blocks of the page import it. */
export function fileNameOf(code: string): string | undefined {
  return /^\/\/ ([\w.-]+\.ts)\b/.exec(code)?.[1];
}

/** The first line of a block that is a part of a file says so, for example `// in seat.service.ts`. */
export function fragmentNameOf(code: string): string | undefined {
  return /^\/\/ in ([\w.-]+\.ts)\b/.exec(code)?.[1];
}

/** The examples in the docstrings of `lib`. */
export function examplesOfLib(): Block[] {
  const files = readdirSync('lib', { recursive: true, encoding: 'utf8' });
  return files
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readPage(join('lib', name)))
    .flatMap(({ path, text }) => {
      const blocks = blocksOf({ path, text: text.replaceAll(/^ *\* ?/gm, '') });
      return blocks.filter(({ language }) => language === 'ts');
    });
}
