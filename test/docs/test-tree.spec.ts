import { parseSync } from '@swc/core';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';

// The size of what a reader has to carry. Raising a number here needs a reason in the commit.

const MOST_FILES_IN_A_FOLDER = 12;
const MOST_FILES_OF_LIB = 121;
const MOST_LINES_OF_LIB = 17_033;
const MOST_LINES_OF_TEST = 38_000;
const MOST_LINES_OF_A_FILE = 400;
const MOST_LINES_OF_A_FUNCTION = 60;

interface Source {
  readonly path: string;
  readonly text: string;
}

function sourcesOf(folder: string): Source[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.includes('node_modules'))
    .map((name) => ({ path: join(folder, name), text: readFileSync(join(folder, name), 'utf8') }));
}

const lineCount = (text: string): number => text.split('\n').length - 1;
const totalLines = (sources: readonly Source[]): number =>
  sources.reduce((sum, { text }) => sum + lineCount(text), 0);

const FUNCTION =
  /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression|ClassMethod|PrivateMethod|Constructor|(Getter|Setter|Method)Property)$/;

/** First line and length of every function of a file that has more lines than it may. */
function longFunctions({ path, text: source }: Source): string[] {
  const text = source.replace(/^#!/, '//');
  // Offsets of swc count on from file to file, in bytes: the first statement says where this one begins.
  const bytes = Buffer.from(`;${text}`);
  const module = parseSync(`;${text}`, {
    syntax: 'typescript',
    decorators: true,
    target: 'es2022',
  });
  const base = module.body[0]!.span.start;
  const linesUpTo = (end: number): number => lineCount(bytes.toString('utf8', 0, end - base));
  const found: string[] = [];
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const { type, span } = value as { type?: string; span?: { start: number; end: number } };
    if (span && FUNCTION.test(type ?? '')) {
      const first = linesUpTo(span.start) + 1;
      const lines = linesUpTo(span.end) + 2 - first;
      if (lines > MOST_LINES_OF_A_FUNCTION) found.push(`${path}:${first} has ${lines} lines`);
    }
    for (const child of Object.values(value)) visit(child);
  };
  visit(module);
  return found;
}

describe('lib', () => {
  const lib = sourcesOf('lib');

  it(`has no folder with more than ${MOST_FILES_IN_A_FOLDER} files`, () => {
    const counts = new Map<string, number>();
    for (const { path } of lib) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
    expect([...counts].filter(([, count]) => count > MOST_FILES_IN_A_FOLDER)).toEqual([]);
  });

  it(`has at most ${MOST_FILES_OF_LIB} files and ${MOST_LINES_OF_LIB} lines`, () => {
    expect(lib.length).toBeLessThanOrEqual(MOST_FILES_OF_LIB);
    expect(totalLines(lib)).toBeLessThanOrEqual(MOST_LINES_OF_LIB);
  });

  it(`has no function with more than ${MOST_LINES_OF_A_FUNCTION} lines`, () => {
    expect(lib.flatMap(longFunctions)).toEqual([]);
  });
});

describe('test', () => {
  it(`has at most ${MOST_LINES_OF_TEST} lines of TypeScript`, () => {
    expect(totalLines(sourcesOf('test'))).toBeLessThanOrEqual(MOST_LINES_OF_TEST);
  });
});

it(`no TypeScript file has more than ${MOST_LINES_OF_A_FILE} lines`, () => {
  const all = ['lib', 'test', 'sample', 'bench'].flatMap(sourcesOf);
  expect(
    all
      .filter(({ path, text }) => !path.includes('dist') && lineCount(text) > MOST_LINES_OF_A_FILE)
      .map(({ path }) => path),
  ).toEqual([]);
});
