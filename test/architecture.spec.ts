import { describe, expect, it } from '@jest/globals';
import { emitDeclarations } from './architecture/declarations.ts';
import {
  coreRoomsInAStack,
  importDirection,
  injectedTimeAndChance,
  installedPackagesOnly,
  namedExportsOnly,
  noCycles,
  noPackagesAtRunTime,
  shortFiles,
  tellingNames,
  type Rule,
} from './architecture/rules.ts';
import { parseSource, readSources, type SourceFile } from './architecture/source-file.ts';

// Every rule runs on the library and, as its negative control, on a wrong example that it must report.

interface Case {
  readonly rule: Rule;
  /** Path and text of wrong files, and what must be said about them. */
  readonly wrong: readonly [path: string, text: string, reported: string | undefined][];
}

const cases: Record<string, Case> = {
  'layers import in one direction': {
    rule: importDirection,
    wrong: [
      [
        'lib/core/a.ts',
        `import { b } from '../redis/b.ts';`,
        'lib/core/a.ts imports ../redis/b.ts',
      ],
      ['lib/core/b.ts', `import type { Redis } from 'ioredis';`, 'lib/core/b.ts imports ioredis'],
      [
        'lib/core/c.ts',
        `export { Module } from '@nestjs/common';`,
        'lib/core/c.ts imports @nestjs/common',
      ],
      [
        'lib/core/d.ts',
        `export type D = import('rxjs').Observable<1>;`,
        'lib/core/d.ts imports rxjs',
      ],
      [
        'lib/core/e.ts',
        `export const e = () => import('../nest/e.ts');`,
        'lib/core/e.ts imports ../nest/e.ts',
      ],
      ['lib/core/f.ts', `export * from '../index.ts';`, 'lib/core/f.ts imports ../index.ts'],
      ['lib/core/g.ts', `const fs = require('fs');`, 'lib/core/g.ts imports fs'],
      [
        'lib/core/h.ts',
        `import { readFileSync } from 'node:fs'; import { a } from './a.ts';`,
        undefined,
      ],
      [
        'lib/redis/a.ts',
        `import { b } from '../nest/b.ts';`,
        'lib/redis/a.ts imports ../nest/b.ts',
      ],
      [
        'lib/redis/b.ts',
        `import { Redis } from 'ioredis'; import { a } from '../core/a.ts';`,
        undefined,
      ],
      [
        'lib/redis/scripts/c.ts',
        `import { a } from '../../core/a.ts'; import '../b.ts';`,
        undefined,
      ],
      [
        'lib/fencing/a.ts',
        `import { Redlock } from '../core/redlock.ts';`,
        'lib/fencing/a.ts imports ../core/redlock.ts',
      ],
      ['lib/fencing/b.ts', `import { isRedlockError } from '../core/errors.ts';`, undefined],
      [
        'lib/nest/a.ts',
        `import { Guard } from '../fencing/guard.ts';`,
        'lib/nest/a.ts imports ../fencing/guard.ts',
      ],
      ['lib/nest/b.ts', `import { Redis } from 'ioredis';`, 'lib/nest/b.ts imports ioredis'],
      [
        'lib/nest/c.ts',
        `import { Module } from '@nestjs/common'; import { map } from 'rxjs/operators';`,
        undefined,
      ],
      [
        'lib/testing/a.ts',
        `import { Node } from '../redis/node.ts';`,
        'lib/testing/a.ts imports ../redis/node.ts',
      ],
      ['lib/other/a.ts', `export const a = 1;`, "lib/other/a.ts: 'other' is no layer"],
      ['lib/index.ts', `export { a } from './nest/a.ts';`, undefined],
    ],
  },
  'the rooms of the core stand in a strict stack': {
    rule: coreRoomsInAStack,
    wrong: [
      [
        'lib/core/nodes/a.ts',
        `import { b } from '../voting/b.ts';`,
        'lib/core/nodes/a.ts imports ../voting/b.ts',
      ],
      [
        'lib/core/errors.ts',
        `import type { b } from './options/b.ts';`,
        'lib/core/errors.ts imports ./options/b.ts',
      ],
      [
        'lib/core/waiting/c.ts',
        `import { Redlock } from '../redlock.ts';`,
        'lib/core/waiting/c.ts imports ../redlock.ts',
      ],
      ['lib/core/other/d.ts', 'export {};', 'lib/core/other/d.ts is in no room of the core'],
      [
        'lib/core/waiting/e.ts',
        `import { a } from '../holding/a.ts'; import { b } from './b.ts'; import { c } from '../errors.ts';`,
        undefined,
      ],
      ['lib/core/redlock.ts', `import { a } from './waiting/a.ts';`, undefined],
    ],
  },
  'the core takes time and chance from its environment': {
    rule: injectedTimeAndChance,
    wrong: [
      ['lib/core/a.ts', `export const now = () => Date.now();`, 'lib/core/a.ts uses Date'],
      ['lib/core/b.ts', `export const now = () => +new Date();`, 'lib/core/b.ts uses Date'],
      ['lib/core/c.ts', `export const c = Math['random']();`, 'lib/core/c.ts uses Math.random'],
      ['lib/core/d.ts', `setTimeout(() => undefined, 1);`, 'lib/core/d.ts uses setTimeout'],
      ['lib/core/e.ts', `const later = setImmediate;`, 'lib/core/e.ts uses setImmediate'],
      [
        'lib/core/f.ts',
        `globalThis.setInterval(() => undefined, 1);`,
        'lib/core/f.ts uses setInterval',
      ],
      ['lib/core/g.ts', `console.log(1);`, 'lib/core/g.ts uses console'],
      ['lib/core/h.ts', `export const h = performance.now();`, 'lib/core/h.ts uses performance'],
      [
        'lib/core/i.ts',
        `export const i = process.hrtime.bigint();`,
        'lib/core/i.ts uses process.hrtime',
      ],
      [
        'lib/core/j.ts',
        `import { scheduler } from 'node:timers/promises';`,
        'lib/core/j.ts imports node:timers/promises',
      ],
      ['lib/core/k.ts', `export const k = crypto.randomUUID();`, 'lib/core/k.ts uses crypto'],
      ['lib/core/l.ts', `// Date.now() and console\nexport const l = 'Math.random';`, undefined],
      [
        'lib/core/m.ts',
        `export const m = (clock: { performance(): 1 }) => clock.performance();`,
        undefined,
      ],
      ['lib/core/system-environment.ts', `export const now = () => Date.now();`, undefined],
      ['lib/redis/a.ts', `setTimeout(() => undefined, 1);`, undefined],
    ],
  },
  'no file is longer than 400 lines': {
    rule: shortFiles,
    wrong: [
      ['lib/core/a.ts', 'export {};\n'.repeat(401), 'lib/core/a.ts has 401 lines'],
      ['lib/core/b.ts', 'export {};\n'.repeat(400), undefined],
    ],
  },
  'nothing is exported as default': {
    rule: namedExportsOnly,
    wrong: [
      ['lib/core/a.ts', 'export default class A {}', 'lib/core/a.ts has a default export'],
      ['lib/core/b.ts', 'export default 1;', 'lib/core/b.ts has a default export'],
      [
        'lib/core/c.ts',
        'const c = 1; export { c as default };',
        'lib/core/c.ts has a default export',
      ],
      ['lib/core/d.ts', 'export const d = 1;', undefined],
    ],
  },
  'the fencing loads no package': {
    rule: noPackagesAtRunTime,
    wrong: [
      ['lib/fencing/a.ts', `import pg from 'pg';`, 'lib/fencing/a.ts loads pg'],
      [
        'lib/fencing/b.ts',
        `export const b = () => import('mysql2/promise');`,
        'lib/fencing/b.ts loads mysql2/promise',
      ],
      [
        'lib/fencing/c.ts',
        `export const c = (name: string) => import(name);`,
        'lib/fencing/c.ts loads <computed>',
      ],
      [
        'lib/fencing/d.ts',
        `const sqlite = require('better-sqlite3');`,
        'lib/fencing/d.ts loads better-sqlite3',
      ],
      [
        'lib/fencing/e.ts',
        `import { type Kysely, sql } from 'kysely';`,
        'lib/fencing/e.ts loads kysely',
      ],
      ['lib/fencing/f.ts', `import knex = require('knex');`, 'lib/fencing/f.ts loads knex'],
      ['lib/fencing/g.ts', `import 'typeorm';`, 'lib/fencing/g.ts loads typeorm'],
      ['lib/fencing/h.ts', `export * from 'drizzle-orm';`, 'lib/fencing/h.ts loads drizzle-orm'],
      [
        'lib/fencing/i.ts',
        `import type { Pool } from 'pg'; import { type Kysely } from 'kysely'; import 'node:fs'; import './a.ts';`,
        undefined,
      ],
      ['lib/redis/a.ts', `import { Redis } from 'ioredis';`, undefined],
    ],
  },
  'names of files say what is in them': {
    rule: tellingNames,
    wrong: [
      ['lib/core/utils.ts', '', 'lib/core/utils.ts says nothing about what is in it'],
      ['lib/core/lock-utils.ts', '', 'lib/core/lock-utils.ts says nothing about what is in it'],
      ['lib/helpers/a.ts', '', 'lib/helpers/a.ts says nothing about what is in it'],
      ['lib/core/futility.ts', '', undefined],
    ],
  },
  'no modules load each other': {
    rule: noCycles,
    wrong: [
      [
        'lib/core/a.ts',
        `import { b } from './b.ts';`,
        'lib/core/a.ts → lib/core/b.ts → lib/core/a.ts',
      ],
      ['lib/core/b.ts', `import { c } from './c.ts'; export { a } from './a.ts';`, undefined],
      [
        'lib/core/c.ts',
        `import type { a } from './a.ts'; import { type b } from './b.ts';`,
        undefined,
      ],
    ],
  },
};

describe('the library', () => {
  const files = readSources('lib');

  it('is seen by this test', () => {
    expect(files.map(({ path }) => path)).toEqual(
      expect.arrayContaining([
        'lib/core/redlock.ts',
        'lib/redis/redis-lock-node.ts',
        'lib/testing/index.ts',
      ]),
    );
  });

  describe.each(Object.entries(cases))('%s', (_, { rule, wrong }) => {
    it('holds', () => {
      expect(rule(files)).toEqual([]);
    });

    it('is reported where it is broken', () => {
      const reported = wrong.flatMap(([, , message]) => message ?? []);
      expect(rule(wrong.map(([path, text]) => parseSource(path, text))).sort()).toEqual(
        reported.sort(),
      );
    });
  });
});

describe('the emitted declarations of every entry point', () => {
  it('name no package that a user may lack', async () => {
    const declarations = await emitDeclarations();
    expect(declarations.map(({ path }) => path)).toEqual(
      expect.arrayContaining([
        'core/lock.d.ts',
        'fencing/orms/prisma-fence.d.ts',
        'testing/fence-store.d.ts',
      ]),
    );
    expect(installedPackagesOnly(declarations)).toEqual([]);
  }, 60_000);

  it('would be reported if they did', () => {
    const wrong: SourceFile[] = [
      parseSource(
        'index.d.ts',
        `export type A = import('pg').Client; import { B } from '@nestjs/schedule';`,
      ),
      parseSource(
        'right.d.ts',
        `import { C } from '@nestjs/common'; import 'node:fs'; import { D } from './index.ts';`,
      ),
      parseSource(
        'fencing/knex-fence.d.ts',
        `import type { Knex } from 'knex'; import { AsyncLocalStorage } from 'node:async_hooks';`,
      ),
    ];
    expect(installedPackagesOnly(wrong)).toEqual([
      'index.d.ts imports pg',
      'index.d.ts imports @nestjs/schedule',
      'fencing/knex-fence.d.ts imports knex',
    ]);
  });
});
