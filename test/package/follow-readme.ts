import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { postgresFence } from '../../lib/fencing/index.ts';
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

const README = blocksOf(readPage('README.md'));
const SEAT_TABLE = /CREATE TABLE seat .+/.exec(readPage('README.md').text)![0];
const LINES_OF_MAIN = README.find(({ code }) => fragmentNameOf(code) === 'main.ts')!.code;

/** The file that `nest new` makes, with the lines that the README adds, and one that says where to find the application. */
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

/** The next step of every reader: a controller for each service. */
const CONTROLLERS = `
import { Controller, Param, Post } from '@nestjs/common';
import { ReportService } from './report.service.js';
import { SeatService } from './seat.service.js';

@Controller('reports')
export class ReportController {
  constructor(private readonly reports: ReportService) {}

  @Post(':customer')
  build(@Param('customer') customer: string) {
    return this.reports.build(customer);
  }
}

@Controller('seats')
export class SeatController {
  constructor(private readonly seats: SeatService) {}

  @Post(':id/:customer')
  book(@Param('id') id: string, @Param('customer') customer: string) {
    return this.seats.book(id, customer);
  }
}
`;

function filesOfReader(url: string, format: Format): Record<string, string> {
  const files = programsOf('README.md', [url], format);
  const module = `import { ReportController, SeatController } from './controllers.js';
${files['app.module.ts']!.replace('@Module({', '@Module({ controllers: [ReportController, SeatController],')}`;
  return { ...files, 'app.module.ts': module, 'controllers.ts': CONTROLLERS, 'main.ts': MAIN };
}

/** One application with all of the README, made from top to bottom, in a project as `nest new` makes it. */
export function followReadme(name: string, { format, packages, runTests }: Project): void {
  describe(`a reader of the README with ${name}`, () => {
    const servers = useRedisServers(1);
    const database = usePostgres((pool) => pool.query(SEAT_TABLE + postgresFence(pool).ddl()));
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
      expect(await post('/reports/ana')).toEqual([201, 'report for ana']);

      // A connection that was idle for ten seconds is closed by the pool itself: then there is none to end yet.
      await eventually(async () => {
        expect(await post('/seats/99Z/ana')).toEqual([201, 'not free']);
        const { rowCount } = await database.pool.query(
          `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
           WHERE datname = current_database() AND application_name = 'reader' AND state = 'idle'`,
        );
        expect(rowCount).toBeGreaterThan(0);
      });
      expect(await post('/seats/99Z/ana')).toEqual([201, 'not free']);

      const booking = post('/seats/12A/ana');
      await eventually(async () => {
        const { rowCount } = await database.pool.query(
          "SELECT 1 FROM redlock_fence WHERE resource = 'seat:12A'",
        );
        expect(rowCount).toBe(1);
      });
      application.signal('SIGTERM');
      expect(await booking).toEqual([201, 'booked']);
      expect(await application.exited(60_000)).toBe(true);
      const redis = new Redis(servers[0]!.url);
      expect(await redis.exists('lock:seat:12A')).toBe(0);
      await redis.quit();
    });
  });
}
