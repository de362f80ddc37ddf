import { expect, it } from '@jest/globals';
import { PAGES } from './pages.ts';

const LONGEST_LINE = 130;

/** Lines without blocks of code, rows of tables, pictures, and the names of tests, which stay in one piece to be found. */
function proseOf(text: string): string[] {
  const lines = text.replaceAll(/^ *```.*?^ *```$/gms, '').split('\n');
  return lines.filter((line) => !/^(?:\||!\[|- `test\/)/.test(line));
}

/** Words of the code that users never meet; docs/internals/words.md has them. */
const OF_INSIDERS = /\b(?:ballots?|floors?|leases?|mutants?|sections?|validity|votes?)\b/i;

const OF_USERS = /^(?:README\.md|docs\/(?!internals|reference).*)$/;

it('the pages of users have no words of insiders, but in code, in quotes and in names of options', () => {
  const pages = PAGES.filter(({ path }) => OF_USERS.test(path));
  expect(pages.length).toBeGreaterThan(20);
  const found = pages.flatMap(({ path, text }) =>
    proseOf(text.replaceAll(/`[^`\n]*`|"[^"\n]*"/g, ''))
      .filter((line) => OF_INSIDERS.test(line))
      .map((line) => `${path}: ${line}`),
  );
  expect(found).toEqual([]);
});

it('the pages of docs have prose in lines that fit', () => {
  const pages = PAGES.filter(({ path }) => /^docs\/(?!reference)/.test(path));
  expect(pages.length).toBeGreaterThan(20);
  const long = pages.flatMap(({ path, text }) =>
    proseOf(text)
      .filter((line) => line.length > LONGEST_LINE)
      .map((line) => `${path}: ${line}`),
  );
  expect(long).toEqual([]);
});
