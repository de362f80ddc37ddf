import { readdirSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { readPage } from './pages.ts';

const FOLDER = 'docs/internals/decisions';
const records = readdirSync(FOLDER).filter((name) => name !== 'README.md');

/** The month in which it was decided, the alternatives, and less than forty lines. */
function problemsWith(text: string): string[] {
  const problems: string[] = [];
  if (!/^# .+\n\n/.test(text)) problems.push('no title');
  if (!/^\*\*Decided \(20\d\d-\d\d\)\.\*\*/m.test(text)) problems.push('no month of its decision');
  if (!/^\*\*Rejected\.\*\*\n\n- _/m.test(text)) problems.push('nothing rejected');
  if (text.split('\n').length > 40) problems.push('forty lines or more');
  return problems;
}

describe('the records of decisions', () => {
  const index = readPage(`${FOLDER}/README.md`).text;

  it.each(records)('are short, and say when, what and what not: %s', (name) => {
    expect(problemsWith(readPage(`${FOLDER}/${name}`).text)).toEqual([]);
  });

  it('are in the index, each once and with its month', () => {
    const entries = index.matchAll(/^\| \[.+\]\((.+\.md)\) +\| (20\d\d-\d\d) \|/gm);
    const indexed = [...entries].map(([, name, month]) => `${name} ${month}`);
    const dated = records.map((name) => {
      const { text } = readPage(`${FOLDER}/${name}`);
      return `${name} ${/Decided \((.+?)\)/.exec(text)?.[1]}`;
    });
    expect(indexed.toSorted()).toEqual(dated.toSorted());
    expect(records.length).toBeGreaterThan(10);
  });
});
