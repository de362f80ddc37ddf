import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ConsumerProject, removeProjects } from './consumer-project.ts';
import { GIVEN_TO_EXAMPLES, moduleOf } from './fragments.ts';
import { blocksOf, examplesOfLib, fileNameOf, PAGES, type Block } from './pages.ts';
import { SURROUNDINGS_FILE } from './surroundings.ts';

const nameOf = ({ line, code }: Block): string => fileNameOf(code) ?? `line-${line}.ts`;
const ofPages = PAGES.flatMap(blocksOf).filter(
  ({ page, language }) => language === 'ts' && !page.startsWith('docs/reference/'),
);
// The examples are those of docs/reference, too.
const blocks = [...ofPages, ...examplesOfLib()];

const compile = async (files: Readonly<Record<string, string>>): Promise<string> =>
  (await ConsumerProject.write({ 'surroundings.ts': SURROUNDINGS_FILE, ...files })).compile();

describe('the TypeScript of pages and docstrings', () => {
  afterAll(removeProjects);

  it('is free of errors for a user who has installed the package: all blocks are one program', async () => {
    const files = blocks.map((block) => {
      const folder = block.page.replaceAll(/[/.]/g, '-');
      const isExample = block.page.startsWith('lib/') && /^import /m.test(block.code);
      const given = isExample ? GIVEN_TO_EXAMPLES : '';
      return [join(folder, nameOf(block)), moduleOf(block) + given] as const;
    });
    expect(new Set(files.map(([name]) => name)).size).toBe(files.length);
    expect(await compile(Object.fromEntries(files))).toBe('');
  });
});
