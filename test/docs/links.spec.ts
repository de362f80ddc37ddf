import { existsSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { PAGES, readPage, type Page } from './pages.ts';

/** Anchor that GitHub makes of a heading. */
function anchorOf(heading: string): string {
  const plain = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '');
  return plain
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

function anchorsOf({ text }: Page): string[] {
  const seen = new Map<string, number>();
  const prose = text.replaceAll(/^( *)```.*?^\1```$/gms, '');
  const written = [...prose.matchAll(/<a id="([^"]+)"><\/a>/g)].map(([, anchor]) => anchor!);
  const headings = [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => {
    const anchor = anchorOf(heading!);
    const count = seen.get(anchor) ?? 0;
    seen.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  });
  return [...headings, ...written];
}

/** Targets of links and pictures that are no addresses. */
function linksOf({ text }: Page): string[] {
  const prose = text.replaceAll(/^( *)```.*?^\1```$/gms, '').replaceAll(/`[^`\n]*`/g, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target));
}

function problemWith(page: Page, target: string): string | undefined {
  const [file = '', anchor] = target.split('#');
  const path = file === '' ? page.path : normalize(join(dirname(page.path), file));
  if (!existsSync(path)) return `${page.path}: ${target} is not there`;
  if (anchor === undefined) return undefined;
  const isPage = !statSync(path).isDirectory() && path.endsWith('.md');
  const has = isPage && anchorsOf(readPage(path)).includes(anchor);
  return has ? undefined : `${page.path}: ${target} has no such heading`;
}

const INTERNALS = 'docs/internals/README.md';

describe('the links of the documentation', () => {
  it('lead to files and headings that exist', () => {
    const links = PAGES.flatMap((page) => linksOf(page).map((target) => [page, target] as const));
    expect(links.length).toBeGreaterThan(100);
    expect(links.map(([page, target]) => problemWith(page, target)).filter(Boolean)).toEqual([]);
  });

  it('stand beside names of files that exist, with or without their ending', () => {
    // A campaign writes its report to `campaign/out`: a fresh clone has no such folder.
    const named = PAGES.flatMap(({ path, text }) =>
      [...text.matchAll(/`((?:lib|test|campaign|sample|docs|bench)\/(?!out\b)[\w./-]+)`/g)].map(
        ([, name]) => [path, name!] as const,
      ),
    );
    expect(named.length).toBeGreaterThan(100);
    const missing = named.filter(([, name]) => !existsSync(name) && !existsSync(`${name}.ts`));
    expect(missing).toEqual([]);
  });

  it('take a reader from the index to every page of docs', () => {
    const index = readPage('docs/README.md');
    const linked = linksOf(index).map((target) => normalize(join('docs', target.split('#')[0]!)));
    const chapters = PAGES.map(({ path }) => path).filter((path) => /^docs\/[^/]+\.md$/.test(path));
    const missing = chapters.filter((path) => path !== index.path && !linked.includes(path));
    expect(missing).toEqual([]);
    expect(linked).toEqual(expect.arrayContaining(['docs/fencing/README.md', INTERNALS]));
  });

  it('take a reviewer from the index of the internals to each of them', () => {
    const linked = linksOf(readPage(INTERNALS)).map((target) =>
      normalize(join(dirname(INTERNALS), target)),
    );
    const internal = PAGES.map(({ path }) => path).filter((path) =>
      /^docs\/internals\/[^/]+\.md$/.test(path),
    );
    const missing = internal.filter((path) => path !== INTERNALS && !linked.includes(path));
    expect(missing).toEqual([]);
    for (const folder of ['decisions', 'spec'])
      expect(linked).toContain(`docs/internals/${folder}/README.md`);
  });
});
