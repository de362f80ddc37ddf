import { expect, it } from '@jest/globals';
import { PAGES } from './pages.ts';

const LONGEST_LINE = 130;

/** Without blocks of code, rows of tables, pictures, and the names of tests, which stay in one piece to be found. */
function proseOf(text: string): string[] {
  const lines = text.replaceAll(/^ *```.*?^ *```$/gms, '').split('\n');
  return lines.filter((line) => !/^(?:\||!\[|- `test\/)/.test(line));
}

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
