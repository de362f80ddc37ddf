import { afterAll, describe, expect, it } from '@jest/globals';
import { postgresFence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import {
  ConsumerProject,
  programsOf,
  removeProjects,
  writePrograms,
} from '../docs/consumer-project.ts';
import { PAGES } from '../docs/pages.ts';

/** Declarations of a test runner. */
const TEST_RUNNER = `
import { expect } from 'expect';
export const tests: (() => unknown)[] = [];
const it = (_name: string, test: () => unknown) => tests.push(test);
const none = () => undefined;
Object.assign(globalThis, { expect, it, beforeEach: none, afterEach: none });
`;

/** An application that a reader of the README could have: it boots each of the modules, and uses it. */
const README_MAIN = `
import { NestFactory } from '@nestjs/core';
import { Pool } from 'pg';
import { ReportService, ReportsModule } from './reports.module.js';
import { SeatService, SeatsModule } from './seats.module.js';
import { tests } from './test-runner.js';

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(ReportsModule, { logger: ['error'] });
  console.log(await app.get(ReportService).build('ana'));
  await app.close();
  const seats = await NestFactory.createApplicationContext(SeatsModule, { logger: ['error'] });
  console.log(await seats.get(SeatService).book('12A', 'ana'));
  console.log(await seats.get(SeatService).book('12A', 'ben'));
  await seats.close();
  await seats.get(Pool).end();
  await import('./reports.spec.js');
  for (const test of tests) await test();
  console.log(tests.length, 'test');
}
void main();
`;

/** Programs of packages that only campaign/stores has: other-clients.stores.spec.ts there runs them, from this page. */
const NOT_INSTALLED = /^docs\/fencing\/orms\//;

/** Programs of all pages, in a folder for each page. */
function allPrograms(format: 'module' | 'commonjs'): Record<string, string> {
  const programs = PAGES.flatMap(({ path }) =>
    Object.entries(programsOf(path, [], format)).map(([name, code]) => [
      `${path.replace(/\.md$/, '')}/${name}`,
      code,
    ]),
  );
  return Object.fromEntries(programs);
}

afterAll(removeProjects);

describe.each(['module', 'commonjs'] as const)(
  'a project of type "%s" that installed the tarball',
  (format) => {
    const servers = useRedisServers(1);
    const database = usePostgres(async (pool) => {
      await pool.query(postgresFence(pool).ddl());
      await pool.query('CREATE TABLE seat (id text PRIMARY KEY, customer text)');
      await pool.query("INSERT INTO seat VALUES ('12A')");
    });

    it('runs the README in a process of its own, which then ends by itself', async () => {
      const others = { 'main.ts': README_MAIN, 'test-runner.ts': TEST_RUNNER };
      const project = await writePrograms('README.md', [servers[0]!.url], others, format);
      const printed = await project.run('main.ts', { DATABASE_URL: database.url });
      expect(printed.trim().split('\n')).toEqual([
        'report for ana',
        'booked',
        'not free',
        '1 test',
      ]);
    });

    it('compiles and loads every program of every page', async () => {
      const programs = allPrograms(format);
      const names = Object.keys(programs).filter((name) => !NOT_INSTALLED.test(name));
      const loads = names.map(
        (name) => `await import('./${name.replace(/\.ts$/, '.js')}'); console.log('${name}');`,
      );
      const project = await ConsumerProject.create(
        {
          ...programs,
          'test-runner.ts': TEST_RUNNER,
          'load.ts': `import './test-runner.js';\nvoid (async () => {\n${loads.join('\n')}\n})();\n`,
        },
        format,
      );
      expect(project.errors).toBe('');
      expect((await project.run('load.ts')).trim().split('\n')).toEqual(names);
      expect(names.length).toBeGreaterThan(20);
    });
  },
);
