import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { publicNames } from './rules.ts';
import { readSource } from './source-file.ts';

const ENTRIES: readonly (readonly [path: string, page: string, load: () => Promise<object>])[] = [
  ['lib/index.ts', 'nestjs-fenced-lock', () => import('../../lib/index.ts')],
  [
    'lib/fencing/index.ts',
    'nestjs-fenced-lock/fencing',
    () => import('../../lib/fencing/index.ts'),
  ],
  ['lib/jobs/index.ts', 'nestjs-fenced-lock/jobs', () => import('../../lib/jobs/index.ts')],
  [
    'lib/postgres/index.ts',
    'nestjs-fenced-lock/postgres',
    () => import('../../lib/postgres/index.ts'),
  ],
  [
    'lib/telemetry/index.ts',
    'nestjs-fenced-lock/telemetry',
    () => import('../../lib/telemetry/index.ts'),
  ],
  [
    'lib/terminus/index.ts',
    'nestjs-fenced-lock/terminus',
    () => import('../../lib/terminus/index.ts'),
  ],
  [
    'lib/testing/index.ts',
    'nestjs-fenced-lock/testing',
    () => import('../../lib/testing/index.ts'),
  ],
];

/** Names that a page of the reference describes; those that are nothing but types as `type Name`. */
function namesOn(page: string): string[] {
  const sections = readFileSync(`docs/reference/${page}.md`, 'utf8').split(/^## /m).slice(1);
  const [types, values] = [true, false].map((areTypes) =>
    sections
      .filter((section) => /^(Interfaces|Type Aliases)/.test(section) === areTypes)
      .flatMap((section) => [...section.matchAll(/^### (?:`abstract` )?([\w\\]+)/gm)])
      .map(([, name]) => name!.replaceAll('\\', '')),
  ) as [string[], string[]];
  const onlyTypes = types.filter((name) => !values.includes(name)).map((name) => `type ${name}`);
  return [...onlyTypes, ...values].sort();
}

describe('public exports', () => {
  it.each(ENTRIES)('of %s are exactly those of the reference', async (path, page, load) => {
    const names = namesOn(page);
    expect(publicNames(readSource(path))).toEqual(names);
    const values = names.filter((name) => !name.startsWith('type '));
    expect(Object.keys(await load()).sort()).toEqual(values);
  });
});
