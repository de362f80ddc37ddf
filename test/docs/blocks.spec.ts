import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ConsumerProject, removeProjects } from './consumer-project.ts';
import { GIVEN_TO_EXAMPLES, moduleOf, SURROUNDINGS_FILE } from './fragments.ts';
import { blocksOf, examplesOfLib, fileNameOf, fragmentNameOf, PAGES, type Block } from './pages.ts';

const nameOf = ({ line, code }: Block): string => fileNameOf(code) ?? `line-${line}.ts`;
const ofPages = PAGES.flatMap(blocksOf).filter(
  ({ page, language }) => language === 'ts' && !page.startsWith('docs/reference/'),
);
// The examples are those of docs/reference, too.
const blocks = [...ofPages, ...examplesOfLib()];

const compile = async (files: Readonly<Record<string, string>>): Promise<string> =>
  (await ConsumerProject.create({ 'surroundings.ts': SURROUNDINGS_FILE, ...files })).errors;

describe('the TypeScript of pages and docstrings', () => {
  afterAll(removeProjects);

  it('says in its first line which file it is, or of which file it is a part', () => {
    const unmarked = ofPages.filter(
      ({ code }) => fileNameOf(code) === undefined && fragmentNameOf(code) === undefined,
    );
    expect(unmarked.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
    expect(ofPages.length).toBeGreaterThan(50);
  });

  it('is free of errors for who has installed the package: all blocks are one program', async () => {
    const files = blocks.map((block) => {
      const folder = block.page.replaceAll(/[/.]/g, '-');
      const isExample = block.page.startsWith('lib/') && /^import /m.test(block.code);
      const given = isExample ? GIVEN_TO_EXAMPLES : '';
      return [join(folder, nameOf(block)), moduleOf(block.code) + given] as const;
    });
    expect(new Set(files.map(([name]) => name)).size).toBe(files.length);
    expect(await compile(Object.fromEntries(files))).toBe('');
  });

  it('would be found to have one', async () => {
    const code = moduleOf(`await locks.withLock('seat:12A', async (lock) => lock.tokens);\n`);
    expect(await compile({ 'page/a.ts': code })).toMatch(
      /^page\/a\.ts\(\d+,\d+\): error TS2551.*'token'/,
    );
  });
});
