import { relative } from 'node:path';
import { isPage, placeOf, REPOSITORY, ROOT, targetOf } from './pages.mjs';

/** Anchor that GitHub makes of a heading. */
export function anchorOf(heading) {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

/** Links of the pages as they are on GitHub: what is no page is among the sources. */
function followLinks(md) {
  const render = md.renderer.rules.link_open;
  md.renderer.rules.link_open = (tokens, index, options, env, self) => {
    const token = tokens[index];
    const file = relative(ROOT, env.realPath ?? env.path);
    const target = targetOf(file, token.attrGet('href'));
    if (target === undefined) return render(tokens, index, options, env, self);
    const { path, anchor } = target;
    if (isPage(path)) {
      token.attrSet('href', `/${placeOf(path)}${anchor}`);
      return render(tokens, index, options, env, self);
    }
    token.attrs = REPOSITORY
      ? [['href', `${REPOSITORY}/blob/HEAD/${path}${anchor}`]]
      : [
          ['title', `${path} in the repository`],
          ['style', 'color: inherit; text-decoration: none'],
        ];
    return self.renderToken(tokens, index, options);
  };
}

const ROLES = {
  table_open: 'table',
  thead_open: 'rowgroup',
  tbody_open: 'rowgroup',
  tr_open: 'row',
  th_open: 'columnheader',
  td_open: 'cell',
};

const wordsOf = ({ children }) => children.map(({ content }) => content).join('');

/** On a phone a row is an entry of a list, and its cells say to which column they belong. It stays a table for screen readers. */
function labelCells(md) {
  md.core.ruler.push('cells', ({ tokens }) => {
    let columns;
    let column;
    tokens.forEach((token, index) => {
      if (token.type in ROLES) token.attrSet('role', ROLES[token.type]);
      if (token.type === 'table_open') columns = [];
      if (token.type === 'tr_open') column = 0;
      if (token.type === 'th_open') columns.push(wordsOf(tokens[index + 1]));
      if (token.type === 'td_open') token.attrSet('data-column', columns[column++]);
      if (token.type === 'table_close') token.meta = { columns };
    });
  });
  const columnsOf = (tokens, index) =>
    tokens.slice(index).find(({ type }) => type === 'table_close').meta.columns;
  md.renderer.rules.table_open = (tokens, index, options, env, self) => {
    const columns = columnsOf(tokens, index);
    const label = md.utils.escapeHtml(`Table: ${columns.join(', ')}`);
    // What scrolls can be reached with the keyboard.
    const focus = columns.length > 3 ? ` tabindex="0" role="region" aria-label="${label}"` : '';
    return `<div class="table" data-columns="${columns.length}"${focus}>${self.renderToken(tokens, index, options)}`;
  };
  md.renderer.rules.table_close = (tokens, index, options, env, self) =>
    `${self.renderToken(tokens, index, options)}</div>`;
}

/** Says whether a page has a table that needs the room of the outline. */
export const hasWideTable = (markdown) => /^(?:\| ?:?-+:? ?){4,}\|$/m.test(markdown);

export const extendMarkdown = (md) => md.use(followLinks).use(labelCells);
