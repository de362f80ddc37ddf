import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const { dirname, join } = posix;
const DOCS = fileURLToPath(new URL('../..', import.meta.url));
const textOf = (page) => readFileSync(join(DOCS, page), 'utf8');

const { name, description, repository } = JSON.parse(textOf('../package.json'));

/** Address of the sources; package.json is the only place that names it. */
const SOURCES = repository && `${repository.url.replace(/^git\+|\.git$/g, '')}/blob/HEAD/`;

/** Pages that the tables of an index link. */
function pagesOf(index, source = textOf(index)) {
  return [...source.matchAll(/^\|.*?\[([^\]]+)\]\(([^)#]+\.md)\)/gm)]
    .map(([, text, target]) => ({ text, page: join(dirname(index), target) }))
    .filter(({ page }) => !page.startsWith('..'))
    .map(({ text, page }) => ({ text, link: `/${page.replace(/README\.md$/, '')}` }));
}

const chapters = textOf('README.md').split(/^## /m).slice(1);
const [start, guides, ...rest] = chapters.map((chapter) => pagesOf('README.md', chapter));

const SIDEBAR = [
  { text: 'Start', items: start },
  { text: 'Guides', items: guides },
  { text: 'Fencing per database', items: pagesOf('fencing/README.md') },
  { text: 'Operations and reference', items: rest.flat() },
];

/** Anchor that GitHub makes of a heading. */
function anchorOf(heading) {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

/** Links of the pages as they are on GitHub: README.md is the index of its folder, and what is no page is among the sources. */
function followLinks(md) {
  const render = md.renderer.rules.link_open;
  md.renderer.rules.link_open = (tokens, index, options, env, self) => {
    const token = tokens[index];
    const href = token.attrGet('href');
    if (/^(?:[a-z]+:|#)/.test(href)) return render(tokens, index, options, env, self);
    const path = join('docs', dirname(env.relativePath), href);
    if (/^docs\/.*\.md(?:#|$)/.test(path)) {
      token.attrSet('href', href.replace(/README\.md(?=#|$)/, 'index.md'));
      return render(tokens, index, options, env, self);
    }
    token.attrs = SOURCES
      ? [['href', SOURCES + path]]
      : [
          ['title', `${path} in the repository`],
          ['style', 'color: inherit; text-decoration: none'],
        ];
    return self.renderToken(tokens, index, options);
  };
}

/** Blocks between two comments, each under its name in bold: tabs here, and one after the other on GitHub. */
function groupTabs(md) {
  md.core.ruler.before('normalize', 'tabs', (state) => {
    state.src = state.src.replaceAll(
      /^<!-- tabs -->\n(.*?)^<!-- \/tabs -->$/gms,
      (text, blocks) => {
        const named = blocks.replaceAll(/^\*\*(.+)\*\*\n\n```(\w+)$/gm, '```$2 [$1]');
        // A group shows no block without a name.
        if (/^```\w+$/m.test(named)) throw new Error(`A block has no name above it:\n${text}`);
        return `::: code-group\n${named}:::`;
      },
    );
  });
}

export default defineConfig({
  title: name,
  description,
  srcDir: '..',
  srcExclude: ['site/**', 'reference/generator/**'],
  outDir: 'dist',
  cacheDir: 'node_modules/.cache',
  rewrites: (page) => page.replace(/README\.md$/, 'index.md'),
  markdown: {
    config: (md) => md.use(followLinks).use(groupTabs),
    anchor: { slugify: anchorOf },
    // The default themes have comments and keywords with too little contrast.
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  // The index of the search is larger than the default; a browser loads it when it first searches.
  vite: { build: { chunkSizeWarningLimit: 1_000 } },
  themeConfig: {
    outline: [2, 3],
    sidebar: { '/': SIDEBAR, '/internals/': pagesOf('internals/README.md') },
    search: {
      provider: 'local',
      options: {
        // The name of a button has all of its text; here that is the key as well.
        translations: { button: { buttonText: 'Search ', buttonAriaLabel: 'Search K' } },
        // Readers who search use the package: the internals have words that they never meet.
        _render: (source, env, md) =>
          env.relativePath.startsWith('internals/') ? '' : md.render(source, env),
      },
    },
  },
});
