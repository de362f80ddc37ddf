import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CHAPTERS, entriesOf, isPage, manifest, placeOf, targetOf, textOf } from './pages.mjs';

/** Markdown of a page as the site has it: links lead to the Markdown of other pages. */
function markdownOf(file) {
  return textOf(file).replaceAll(/\]\(([^)\s]+)\)/g, (text, href) => {
    const target = targetOf(file, href);
    if (target === undefined || !isPage(target.path)) return text;
    return `](/${placeOf(target.path)}${target.anchor})`;
  });
}

/** Pages in the order of the index, for a reader that wants plain text: see llmstxt.org. */
function llmsText() {
  const line = ({ text, file, says }) => `- [${text}](/${placeOf(file)}): ${says}`;
  const chapters = [
    ...CHAPTERS.map(({ title, entries }) => ({ title, entries })),
    { title: 'Fencing per database', entries: entriesOf('docs/fencing/README.md') },
    { title: 'Optional', entries: entriesOf('docs/internals/README.md') },
  ].map(({ title, entries }) => `## ${title}\n\n${entries.map(line).join('\n')}\n`);
  return [`# ${manifest.name}\n`, `> ${manifest.description}\n`, ...chapters].join('\n');
}

/** Writes llms.txt, and beside each page its Markdown. */
export function writePlainText({ outDir, pages }) {
  const write = (place, text) => {
    const path = join(outDir, place);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  };
  write('llms.txt', llmsText());
  for (const page of pages) write(placeOf(page), markdownOf(page));
}
