import { defineConfig } from 'vitepress';
import { anchorOf, extendMarkdown, hasWideTable } from './markdown.mjs';
import {
  CHAPTERS,
  entriesOf,
  manifest,
  NO_PAGES,
  placeOf,
  REPOSITORY,
  ROOT,
  textOf,
} from './pages.mjs';
import { writePlainText } from './plain-text.mjs';

const { name, description } = manifest;

/** Address of the site that leads to a page. */
const addressOf = (file) => `/${placeOf(file).replace(/(?:index)?\.md$/, '')}`;
const linksTo = (entries) => entries.map(({ text, file }) => ({ text, link: addressOf(file) }));

const [start, guides, ...rest] = CHAPTERS;

const SIDEBAR = [
  { text: start.title, items: linksTo(start.entries) },
  { text: guides.title, items: linksTo(guides.entries) },
  { text: 'Fencing per database', items: linksTo(entriesOf('docs/fencing/README.md')) },
  ...rest.map(({ title, entries }) => ({ text: title, items: linksTo(entries) })),
];

/** The newest heading of the changelog: a version, and whether it is released. */
const [, version] = /^## (.+)$/m.exec(textOf('CHANGELOG.md'));

export default defineConfig({
  title: name,
  description,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: '/icon.svg' }]],
  srcDir: ROOT,
  srcExclude: NO_PAGES,
  outDir: 'dist',
  cacheDir: 'node_modules/.cache',
  rewrites: placeOf,
  markdown: {
    config: extendMarkdown,
    anchor: { slugify: anchorOf },
    // The default themes have comments and keywords with too little contrast.
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  vite: {
    publicDir: 'docs/site/public',
    // The index of the search is larger than the default; a browser loads it when it first searches.
    build: { chunkSizeWarningLimit: 1_000 },
  },
  transformPageData({ filePath, frontmatter }) {
    if (hasWideTable(textOf(filePath))) return { frontmatter: { aside: false, ...frontmatter } };
  },
  buildEnd: writePlainText,
  themeConfig: {
    logo: { src: '/icon.svg', alt: '' },
    nav: [
      { text: 'Quick start', link: '/quick-start' },
      { text: 'All pages', link: '/pages' },
      { text: version, link: '/changelog' },
    ],
    socialLinks: REPOSITORY && [{ icon: 'github', link: REPOSITORY }],
    outline: [2, 3],
    sidebar: { '/': SIDEBAR, '/internals/': linksTo(entriesOf('docs/internals/README.md')) },
    search: {
      provider: 'local',
      options: {
        // The name of a button has all of its text; here that is the key as well.
        translations: { button: { buttonText: 'Search ', buttonAriaLabel: 'Search K' } },
        miniSearch: {
          searchOptions: {
            // A word with two wrong letters is another word: "deadlock" is not "redlock".
            fuzzy: 0.1,
            // Guides explain, and the reference repeats their words for every name.
            boostDocument: (id) => (id.includes('/reference/') ? 0.2 : 1),
          },
        },
        // Readers who search use the package: the internals have words that they never meet.
        _render: (source, env, md) =>
          env.relativePath.startsWith('docs/internals/') ? '' : md.render(source, env),
      },
    },
  },
});
