import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
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

/** Words that are no subject: pronouns, prepositions and the like. */
const NO_SUBJECT =
  /^(?:th(?:at|is|ese|ose|ey|ere|en)|wh(?:at|ich|o|ose|y|ile|ere)|(?:an)?other|others?|some.*thing|nobody|one|o[fn]|its?|so|also|such|all|not?|only|even|how|for|in|at|by|from|with(?:out)?|to|as|until|after|before|here|both|every|each)$/i;

it('comments begin with their subject', () => {
  const files = ['lib', 'test', 'sample', 'bench'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !/node_modules|\bdist\b/.test(name))
      .map((name) => join(folder, name)),
  );
  expect(files.length).toBeGreaterThan(400);
  const found = files.flatMap((file) => {
    const lines = readFileSync(file, 'utf8').split('\n');
    return lines.flatMap((line, index) => {
      const isGoingOn = /^\s*\/\//.test(line) && /^\s*\/\//.test(lines[index - 1] ?? '');
      const next = (lines[index + 1] ?? '').replace(/^\s*\* ?/, '');
      const text = line.trim() === '/**' ? `/** ${next}` : line;
      const [, word = ''] = /^\s*(?:\/\/|\/\*\*)\s*([A-Za-z']+)/.exec(text) ?? [];
      return !isGoingOn && NO_SUBJECT.test(word) ? [`${file}:${index + 1}`] : [];
    });
  });
  expect(found).toEqual([]);
});
