import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { format } from 'prettier';
import { ConsumerProject, removeProjects } from './consumer-project.ts';
import { GIVEN_TO_EXAMPLES, moduleOf } from './fragments.ts';
import {
  blocksOf,
  examplesOfLib,
  fileNameOf,
  foreignPackageOf,
  fragmentNameOf,
  PAGES,
  type Block,
} from './pages.ts';
import { SURROUNDINGS_FILE } from './surroundings.ts';

const nameOf = ({ line, code }: Block): string => fileNameOf(code) ?? `line-${line}.ts`;
const ofPages = PAGES.flatMap(blocksOf).filter(
  ({ page, language }) => language === 'ts' && !page.startsWith('docs/reference/'),
);
// The examples are those of docs/reference, too.
const blocks = [...ofPages, ...examplesOfLib()];

const compile = async (files: Readonly<Record<string, string>>): Promise<string> =>
  (await ConsumerProject.create({ 'surroundings.ts': SURROUNDINGS_FILE, ...files })).errors;

/** What runs or compares the blocks of each language; `false` for a block that nothing does. */
const HELD_BY: Readonly<Record<string, (block: Block) => boolean>> = {
  // The next tests, and consumer.spec.ts.
  ts: ({ code }) => fileNameOf(code) !== undefined || fragmentNameOf(code) !== undefined,
  // Code of a package that has no place here: its first line says of which.
  js: ({ code }) => !isInstalled(foreignPackageOf(code)),
  // sql-blocks.spec.ts has one test for each.
  sql: () => true,
  // commands.spec.ts knows every command.
  sh: () => true,
  // test/stores/schema-tools.stores.spec.ts gives the only one to Prisma's schema engine.
  prisma: ({ page }) => page === 'docs/fencing/README.md',
  // test/security/least-privilege.spec.ts connects with these rights.
  redis: ({ page }) => page === 'docs/operations.md',
  // Parsed below; no cluster runs them.
  yaml: ({ page }) => page === 'docs/kubernetes.md',
  // No code: a picture, and what a program prints.
  text: ({ page }) => ['docs/internals/architecture.md', 'sample/README.md'].includes(page),
};

function isInstalled(name: string | undefined): boolean {
  return name === undefined || existsSync(join('node_modules', name));
}

describe('the blocks of the pages, in any language', () => {
  const isHeld = (block: Block): boolean => HELD_BY[block.language]?.(block) ?? false;

  it('run, or say of which file or package they are a part', () => {
    const all = PAGES.flatMap(blocksOf).filter(({ page }) => !page.startsWith('docs/reference/'));
    const loose = all.filter((block) => !isHeld(block));
    expect(loose.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
    expect(all.length).toBeGreaterThan(90);
    for (const single of ['prisma', 'redis'])
      expect(all.filter(({ language }) => language === single)).toHaveLength(1);
  });
});

describe('the YAML of pages', () => {
  const manifests = PAGES.flatMap(blocksOf).filter(({ language }) => language === 'yaml');

  it('can be parsed, and its lock servers evict nothing', async () => {
    expect(manifests).toHaveLength(3);
    for (const { code } of manifests) {
      await expect(format(code, { parser: 'yaml' })).resolves.not.toBe('');
      expect(/redis:8/.test(code)).toBe(/maxmemory-policy,? noeviction/.test(code));
    }
  });
});

describe('the TypeScript of pages and docstrings', () => {
  afterAll(removeProjects);

  it('says in its first line which file it is, or of which file it is a part', () => {
    const unmarked = ofPages.filter(
      ({ code }) => fileNameOf(code) === undefined && fragmentNameOf(code) === undefined,
    );
    expect(unmarked.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
    expect(ofPages.length).toBeGreaterThan(50);
  });

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
