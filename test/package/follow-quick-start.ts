import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  ConsumerProject,
  programsOf,
  removeProjects,
  type Format,
} from '../docs/consumer-project.ts';
import { blocksOf, fragmentNameOf, readPage } from '../docs/pages.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { GuardedProcess } from '../support/redis-servers/guarded-process.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

/** What differs between the projects that `nest new` makes. */
export interface Project {
  readonly format: Format;
  /** Folders of packages beside those of the repository, which come first. */
  readonly packages: readonly string[];
  /** Runs the tests of the project as `npm test` does there. Rejects when one of them fails. */
  readonly runTests: (folder: string, environment: NodeJS.ProcessEnv) => Promise<unknown>;
}

const PAGE = 'docs/quick-start.md';
const BLOCKS = blocksOf(readPage(PAGE));
const TABLES = BLOCKS.find(({ language }) => language === 'sql')!.code;
const LINES_OF_MAIN = BLOCKS.find(({ code }) => fragmentNameOf(code) === 'main.ts')!.code;

/** The file that `nest new` makes, with the lines that the page adds, and one that says where to find the application. */
const MAIN = `
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  ${LINES_OF_MAIN}
  await app.listen(process.env.PORT ?? 3000);
  console.log('listens at', await app.getUrl());
}
void bootstrap();
`;

function filesOfReader(url: string, format: Format): Record<string, string> {
  return { ...programsOf(PAGE, [url], format), 'main.ts': MAIN };
}

/** The application of the quick start, made from top to bottom, in a project as `nest new` makes it. */
export function followQuickStart(name: string, { format, packages, runTests }: Project): void {
  describe(`a reader of the quick start with ${name}`, () => {
    const servers = useRedisServers(1);
    const database = usePostgres((pool) => pool.query(TABLES));
    let project: ConsumerProject;
    let errors: string;
    let environment: NodeJS.ProcessEnv;
    let application: GuardedProcess | undefined;
    beforeAll(async () => {
      project = await ConsumerProject.write(
        filesOfReader(servers[0]!.url, format),
        format,
        packages,
      );
      errors = await project.compile();
      environment = {
        ...process.env,
        DATABASE_URL: database.url,
        PGAPPNAME: 'reader',
        PORT: '0',
      };
    });
    afterEach(() => void application?.signal('SIGKILL'));
    afterAll(removeProjects);

    it('compiles, and its test passes', async () => {
      expect(errors).toBe('');
      await runTests(project.folder, environment);
    });

    it('locks, lives on when PostgreSQL ends idle connections, and ends after its work', async () => {
      const main = join(project.folder, 'dist/main.js');
      const log = join(project.folder, 'application.log');
      const command = [process.execPath, main];
      application = await GuardedProcess.start(command, project.folder, log, environment);
      const address = await eventually(async () => {
        const printed = await readFile(log, 'utf8');
        expect(printed).toContain('listens at');
        return /listens at (\S+)/.exec(printed)![1]!;
      });
      const post = async (path: string) => {
        const response = await fetch(address + path, { method: 'POST' });
        return [response.status, await response.text()];
      };
      const monday = [201, 'report for monday'];
      expect(await post('/reports/monday')).toEqual(monday);

      // A connection that was idle for ten seconds is closed by the pool itself: then there is none to end yet.
      await eventually(async () => {
        expect(await post('/reports/monday')).toEqual(monday);
        const { rowCount } = await database.pool.query(
          `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
           WHERE datname = current_database() AND application_name = 'reader' AND state = 'idle'`,
        );
        expect(rowCount).toBeGreaterThan(0);
      });
      expect(await post('/reports/monday')).toEqual(monday);

      const redis = new Redis(servers[0]!.url);
      const building = post('/reports/tuesday');
      await eventually(async () => expect(await redis.exists('lock:report:tuesday')).toBe(1));
      application.signal('SIGTERM');
      expect(await building).toEqual([201, 'report for tuesday']);
      expect(await application.exited(60_000)).toBe(true);
      expect(await redis.exists('lock:report:tuesday')).toBe(0);
      await redis.quit();
    });
  });
}
