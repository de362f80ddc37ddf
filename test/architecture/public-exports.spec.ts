import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
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
  ['lib/locks/index.ts', 'nestjs-fenced-lock/core', () => import('../../lib/locks/index.ts')],
  ['lib/jobs/index.ts', 'nestjs-fenced-lock/jobs', () => import('../../lib/jobs/index.ts')],
  ['lib/leader/index.ts', 'nestjs-fenced-lock/leader', () => import('../../lib/leader/index.ts')],
  ['lib/once/index.ts', 'nestjs-fenced-lock/once', () => import('../../lib/once/index.ts')],
  [
    'lib/postgres/index.ts',
    'nestjs-fenced-lock/postgres',
    () => import('../../lib/postgres/index.ts'),
  ],
  [
    'lib/schedule/index.ts',
    'nestjs-fenced-lock/schedule',
    () => import('../../lib/schedule/index.ts'),
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
  const text = readFileSync(`docs/reference/${page}.md`, 'utf8');
  const [, ...sections] = text.split(/^## /m).filter((each) => !each.startsWith('References'));
  const again = [...text.matchAll(/^Re-exports \[(\w+)\]\((.+)\.md#/gm)].map(([, name, other]) => {
    const type = `type ${name}`;
    return namesOn(posix.join(page, '..', other!)).includes(type) ? type : name!;
  });
  const [types, values] = [true, false].map((areTypes) =>
    sections
      .filter((section) => /^(Interfaces|Type Aliases)/.test(section) === areTypes)
      .flatMap((section) => [...section.matchAll(/^### (?:`abstract` )?([\w\\]+)/gm)])
      .map(([, name]) => name!.replaceAll('\\', '')),
  ) as [string[], string[]];
  const onlyTypes = types.filter((name) => !values.includes(name)).map((name) => `type ${name}`);
  return [...onlyTypes, ...values, ...again].sort();
}

describe('public exports', () => {
  it.each(ENTRIES)('of %s are exactly those of the reference', async (path, page, load) => {
    const names = namesOn(page);
    expect(publicNames(readSource(path))).toEqual(names);
    const values = names.filter((name) => !name.startsWith('type '));
    expect(Object.keys(await load()).sort()).toEqual(values);
  });
});
