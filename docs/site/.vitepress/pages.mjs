import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const { dirname, join } = posix;

/** Folder of the repository: the pages of the site are its files. */
export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

export const textOf = (file) => readFileSync(join(ROOT, file), 'utf8');

export const manifest = JSON.parse(textOf('package.json'));

const { repository } = manifest;

/** Address of the repository; package.json is the only place that names it. */
export const REPOSITORY = repository?.url.replaceAll(/^git\+|\.git$/g, '');

/** Pages outside of docs that readers of the site look for. */
const OUTSIDE = ['SECURITY.md', 'CHANGELOG.md', 'CONTRIBUTING.md'];

/** Patterns of what is in the repository and no page. */
export const NO_PAGES = [
  ...readdirSync(ROOT, { withFileTypes: true })
    .filter(({ name }) => name !== 'docs' && !OUTSIDE.includes(name))
    .map((entry) => (entry.isDirectory() ? `${entry.name}/**` : entry.name)),
  'docs/reference/generator/**',
];

export const isPage = (file) =>
  /^docs\/(?!reference\/generator\/).*\.md$/.test(file) || OUTSIDE.includes(file);

/** Place of a page on the site: README.md is the index of its folder, and that of docs stands beside the home. */
export function placeOf(file) {
  if (OUTSIDE.includes(file)) return file.toLowerCase();
  return file
    .replace('docs/site/home.md', 'index.md')
    .replace('docs/README.md', 'pages.md')
    .replace(/^docs\//, '')
    .replace(/README\.md$/, 'index.md');
}

/** Target of a link that stands in a file: a file of the repository with its anchor, or undefined for an address. */
export function targetOf(file, href) {
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return undefined;
  const [path, anchor] = join(dirname(file), href).split('#');
  return { path, anchor: anchor === undefined ? '' : `#${anchor}` };
}

/** Entries of an index, in lists and in tables: a page, its name, and what it has. */
export function entriesOf(index, source = textOf(index)) {
  const entry = /^(?:- |\| *)\[([^\]]+)\]\(([^)#]+\.md)\)(?:: | *\| *)(.*?) *\|?$/gm;
  return [...source.matchAll(entry)]
    .map(([, text, href, says]) => ({ text, file: join(dirname(index), href), says }))
    .filter(({ file }) => isPage(file));
}

/** Chapters of the index of docs, with their entries. */
export const CHAPTERS = textOf('docs/README.md')
  .split(/^## /m)
  .slice(1)
  .map((chapter) => ({
    title: chapter.split('\n', 1)[0],
    entries: entriesOf('docs/README.md', chapter),
  }));
