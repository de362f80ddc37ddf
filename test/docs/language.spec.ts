import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { PAGES, readPage, type Page } from './pages.ts';

/** Phrases that no native writer uses, and words with one meaning here that these would blur. */
const BANNED = [
  /\btold\b/i,
  /\btells nobody\b/i,
  /\bwhoever\b/i,
  /\b(?:for|of|to) who /i,
  /\bthan whom\b/i,
  /\bnobody(?: else|'s| but)\b/i,
  /\bof nobody\b/i,
  /\b(?:of|for|to|by|from|with|than|is|are|as|still|keeps) ours\b/i,
  /\bthat is meant\b/i,
  /\b(?:something|somewhere) else than\b/i,
  /\bnever (?:are|is) (?:the|two|one|an?)\b/i,
  /\binput is none,/i,
  /\bbe it that\b/i,
  /\bis dear\b/i,
  /\bsees where it stands\b/i,
  /\bfor ever\b/i,
  /\banew\b/i,
  /\b(?:give|gives|gave|giving) way\b/i,
  /\bnobody notices\b/i,
  /\bheard\b/i,
  /\bin vain\b/i,
];

/** Words of the code that users never meet; docs/internals/words.md has them. */
const OF_INSIDERS = /\b(?:ballots?|floors?|leases?|mutants?|sections?|validity|votes?)\b/i;

const OF_USERS = /^(?:README\.md|docs\/(?!internals|reference).*)$/;

function bannedIn(text: string): string[] {
  return BANNED.flatMap((phrase) => phrase.exec(text)?.[0] ?? []);
}

const LONGEST_LINE = 130;

/** Without blocks of code, rows of tables, pictures, and the names of tests, which stay in one piece to be found. */
function proseOf(text: string): string[] {
  const lines = text.replaceAll(/^ *```.*?^ *```$/gms, '').split('\n');
  return lines.filter((line) => !/^(?:\||!\[|- `test\/)/.test(line));
}

/** Docstrings, comments, errors, logs, names of tests, and the page of the sample. This file names the phrases. */
const SOURCES: readonly Page[] = ['lib', 'test', 'sample', 'bench'].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:ts|mjs|js|css|html|txt)$/.test(name))
    .filter((name) => !/node_modules|\bdist\b|language\.spec/.test(name))
    .map((name) => readPage(join(folder, name))),
);

describe('pages, docstrings, messages and the names of tests', () => {
  it('are found', () => {
    expect(PAGES.length).toBeGreaterThan(20);
    expect(SOURCES.length).toBeGreaterThan(300);
  });

  it('have none of the phrases that make a reader stop', () => {
    const found = [...PAGES, ...SOURCES].flatMap(({ path, text }) =>
      text
        .split('\n')
        .flatMap((line, index) =>
          bannedIn(line).map((phrase) => `${path}:${index + 1}: ${phrase}`),
        ),
    );
    expect(found).toEqual([]);
  });

  it('have no words of insiders where users read, but in code, in quotes and in names of options', () => {
    const found = PAGES.filter(({ path }) => OF_USERS.test(path)).flatMap(({ path, text }) =>
      proseOf(text.replaceAll(/`[^`\n]*`|"[^"\n]*"/g, ''))
        .filter((line) => OF_INSIDERS.test(line))
        .map((line) => `${path}: ${line}`),
    );
    expect(found).toEqual([]);
  });

  it('have prose in lines that fit', () => {
    const texts = PAGES.filter(({ path }) => /^docs\/(?!reference)/.test(path));
    const long = texts.flatMap(({ path, text }) =>
      proseOf(text)
        .filter((line) => line.length > LONGEST_LINE)
        .map((line) => `${path}: ${line}`),
    );
    expect(long).toEqual([]);
  });
});
