import { describe, expect, it } from '@jest/globals';
import { readSources } from '../architecture/source-file.ts';
import { readPage } from './pages.ts';

const PAGE = readPage('docs/internals/words.md').text;

/** The words of `queue place`, `known process` for `known processes`. */
function wordsOf(term: string): string[] {
  return term
    .toLowerCase()
    .split(' ')
    .map((word) => word.replace(/(?<=ss)es$|(?<!s)s$/, ''));
}

/** `Queue Place` of `QueuePlace`. */
function spaced(name: string): string {
  return name.replaceAll(/\B[A-Z](?=[a-z])/g, ' $&');
}

/** What an item of a list explains: one word, a term of several, or several of them. */
const terms = new Set(
  [...(readPage('docs/concepts.md').text + PAGE).matchAll(/^- \*\*([^*]+)\*\*: /gm)]
    .flatMap(([, names]) => names!.split(', '))
    .map((name) => wordsOf(name).join(' ')),
);

/** Whether the words are terms, one after another. */
function areTerms(words: readonly string[]): boolean {
  return (
    words.length === 0 ||
    words.some((_, index) => {
      const end = index + 1;
      return terms.has(words.slice(0, end).join(' ')) && areTerms(words.slice(end));
    })
  );
}

describe('docs/internals/words.md', () => {
  it('has, with the concepts, every word of the name of a class', () => {
    const names = readSources('lib').flatMap(({ classes }) => classes.map(({ name }) => name));
    expect(names.length).toBeGreaterThan(50);
    expect(names.filter((name) => !areTerms(wordsOf(spaced(name))))).toEqual([]);
  });

  it('explains each of them in one line', () => {
    const items = PAGE.split('\n').filter((line) => /^(- | {2})/.test(line));
    expect(items.filter((line) => !/^- \*\*[^*]+\*\*: .{10,}\.$/.test(line))).toEqual([]);
  });
});
