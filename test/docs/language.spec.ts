import { describe, expect, it } from '@jest/globals';
import { PAGES } from './pages.ts';

/** Phrases that no native writer uses, and words with one meaning here that these would blur. */
const BANNED = [
  /\b(?:is|are|was|were|be|been) told\b/i,
  /\bwhoever\b/i,
  /\bfor ever\b/i,
  /\banew\b/i,
  /\b(?:give|gives|gave|giving) way\b/i,
  /\bnobody notices\b/i,
  /\bheard\b/i,
  /\bin vain\b/i,
];

function bannedIn(text: string): string[] {
  return BANNED.flatMap((phrase) => phrase.exec(text)?.[0] ?? []);
}

describe('the documentation', () => {
  it('has none of the phrases that make a reader stop', () => {
    const found = PAGES.flatMap(({ path, text }) =>
      text
        .split('\n')
        .flatMap((line, index) =>
          bannedIn(line).map((phrase) => `${path}:${index + 1}: ${phrase}`),
        ),
    );
    expect(found).toEqual([]);
  });

  it('would be found to have one', () => {
    expect(bannedIn('The holder is told, and waits for ever.')).toEqual(['is told', 'for ever']);
  });
});
