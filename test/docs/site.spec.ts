import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { PAGES } from './pages.ts';

interface Site {
  isPage(file: string): boolean;
  placeOf(file: string): string;
}

/** Files of the site, which are no TypeScript. */
const load = (name: string): Promise<any> => import(resolve('docs/site/.vitepress', name));

describe('the plain text of the site', () => {
  const folder = mkdtempSync(join(tmpdir(), 'site-'));
  let site: Site;
  let files: string[];
  beforeAll(async () => {
    site = await load('pages.mjs');
    const { writePlainText } = await load('plain-text.mjs');
    const pages = PAGES.map(({ path }) => path).filter((path) => site.isPage(path));
    writePlainText({ outDir: folder, pages });
    files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('leads from llms.txt and from each page to pages that are there', () => {
    const texts = files.filter((name) => /\.(md|txt)$/.test(name));
    const links = texts.flatMap((name) => {
      const text = readFileSync(join(folder, name), 'utf8').replaceAll(/^```.*?^```$/gms, '');
      return [...text.matchAll(/\]\((\/[^)#]+)/g)].map(([, place]) => [name, place!] as const);
    });
    expect(links.length).toBeGreaterThan(200);
    expect(links.filter(([, place]) => !files.includes(place.slice(1)))).toEqual([]);
  });

  it('has every guide in llms.txt', () => {
    const text = readFileSync(join(folder, 'llms.txt'), 'utf8');
    const guides = PAGES.map(({ path }) => path).filter((path) =>
      /^docs\/(?!README)[^/]+\.md$/.test(path),
    );
    expect(guides.filter((path) => !text.includes(`(/${site.placeOf(path)}): `))).toEqual([]);
  });
});
