import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ConsumerProject, removeProjects } from './consumer-project.ts';
import { moduleOf } from './fragments.ts';
import { blocksOf, examplesOfLib, fileNameOf, PAGES, type Block } from './pages.ts';

/** A block with an ellipsis is a sketch, which no compiler can read. Only the pages on fences may have some. */
const isSketch = ({ code }: Block): boolean => code.includes('…');
const nameOf = ({ line, code }: Block): string => fileNameOf(code) ?? `line-${line}.ts`;

const blocks = [
  ...PAGES.flatMap(blocksOf).filter(
    ({ page, language }) => language === 'ts' && !page.startsWith('docs/reference/'),
  ),
  // They are those of docs/reference, too.
  ...examplesOfLib(),
];
const compiled = blocks.filter((block) => !isSketch(block));

const compile = async (files: Readonly<Record<string, string>>): Promise<string> =>
  (await ConsumerProject.create(files)).errors;

describe('the TypeScript of pages and docstrings', () => {
  afterAll(removeProjects);

  it('has no sketches outside of the pages on fences', () => {
    expect(compiled.length).toBeGreaterThan(30);
    const sketches = blocks.filter(isSketch).map(({ page, line }) => `${page}:${line}`);
    expect(sketches.filter((place) => !place.startsWith('docs/fencing/'))).toEqual([]);
  });

  it('is free of errors for who has installed the package: all blocks are one program', async () => {
    const files = compiled.map((block) => {
      const folder = block.page.replaceAll(/[/.]/g, '-');
      return [join(folder, nameOf(block)), moduleOf(block.code)] as const;
    });
    expect(new Set(files.map(([name]) => name)).size).toBe(files.length);
    expect(await compile(Object.fromEntries(files))).toBe('');
  });

  it('would be found to have one', async () => {
    const code = moduleOf(`await locks.withLock('seat:12A', async (lock) => lock.tokens);\n`);
    expect(await compile({ 'a.ts': code })).toMatch(/^a\.ts\(\d+,\d+\): error TS2551.*'token'/);
  });
});
