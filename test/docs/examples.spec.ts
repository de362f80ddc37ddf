import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';

const ENTRIES = ['lib/index.ts', 'lib/fencing/index.ts', 'lib/testing/index.ts'];

/** Errors are received, the interceptor need not be bound, and two defaults stand in the examples of their decorators. */
const WITHOUT = /(?!^RedlockError)^.*Error$|^FencedInterceptor$|^fencingToken$|^lockSignal$/;

/** Every value that the file exports, and the file that declares it. */
function exportsOf(entry: string): [name: string, file: string][] {
  const lists = readFileSync(entry, 'utf8').matchAll(/^export \{([^}]+)\} from '(.+)';$/gm);
  return [...lists].flatMap(([, names, from]) =>
    names!
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '' && !WITHOUT.test(name))
      .map((name): [string, string] => [name, join(dirname(entry), from!)]),
  );
}

/** The docstring of a declaration; decorators may stand between. */
function docstringOf(name: string, text: string): string {
  const declaration = new RegExp(
    `^export (?:abstract |async )*(?:function|class|const) ${name}\\b`,
    'm',
  );
  const before = text.slice(0, text.search(declaration));
  return before.slice(before.lastIndexOf('/**'));
}

describe('the main exports', () => {
  const exported = ENTRIES.flatMap(exportsOf);

  it('are found', () => {
    const names = exported.map(([name]) => name);
    expect(names).toEqual(expect.arrayContaining(['Fenced', 'RedlockError', 'createMemoryNodes']));
    expect(names.length).toBeGreaterThan(12);
  });

  it.each(exported)('have an example that an editor shows: %s', (name, file) => {
    expect(docstringOf(name, readFileSync(file, 'utf8'))).toMatch(/@example[\s*]*```ts/);
  });
});
