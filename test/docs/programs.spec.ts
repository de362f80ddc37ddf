import 'reflect-metadata';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { execFile } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Pool } from 'pg';
import type { LockService } from '../../lib/index.ts';
import { postgresFence } from '../../lib/fencing/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { cronDdl } from '../../lib/schedule/index.ts';
import { closeAll, closeLater, silentLogger } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { useRedlocks } from '../support/use-redlocks.ts';
import { changed } from './changed.ts';
import {
  ConsumerProject,
  programsOf,
  removeProjects,
  runTests,
  writePrograms,
} from './consumer-project.ts';
import { blocksOf, readPage } from './pages.ts';

afterEach(closeAll);
afterAll(removeProjects);

const OWN_FENCE = readPage('docs/internals/own-fence.md');
const QUICK_START = readPage('docs/quick-start.md');
const WITHOUT_REDIS = readPage('docs/without-redis.md');
const REPORT_TABLE = /CREATE TABLE IF NOT EXISTS report [^;]+/.exec(QUICK_START.text)![0];

const database = usePostgres(async (pool) => {
  await pool.query(postgresFence(pool).ddl());
  await pool.query(cronDdl(postgresFence(pool)));
  await pool.query('CREATE TABLE seat (id text PRIMARY KEY, customer text)');
  await pool.query("INSERT INTO seat VALUES ('12A'), ('12B'), ('12C'), ('12D')");
  await pool.query(/CREATE TABLE document .+(?= \*\/)/.exec(OWN_FENCE.text)![0]);
});
beforeAll(() => {
  process.env.DATABASE_URL = database.url;
});

async function start(module: unknown) {
  const building = Test.createTestingModule({ imports: [module as never] });
  return closeLater(await (await building.setLogger(silentLogger).compile()).init());
}

describe('docs/quick-start.md', () => {
  const servers = useRedisServers(1);
  let project: ConsumerProject;
  let pool: Pool;
  let AppModule: unknown;
  beforeAll(async () => {
    await database.pool.query(REPORT_TABLE);
    project = await writePrograms(QUICK_START.path, [servers[0]!.url]);
    ({ AppModule } = await project.load('app.module.ts'));
    ({ pool } = await project.load('database.ts'));
  });
  afterAll(() => pool.end());

  it.each(['once', 'twice'])(
    'has an application that boots, locks on a server, writes a report through the fence, and leaves nothing held: %s',
    async () => {
      const { ReportController } = await project.load('report.controller.ts');
      const { LockService } = await project.loadPackage();
      const app = await start(AppModule);
      await expect(app.get(ReportController).build('monday')).resolves.toBe('report for monday');
      const known = await app.get(LockService).inspect('report:monday');
      expect([known.holder, Number(known.lastToken) > 0]).toEqual([null, true]);
      const { rows } = await database.pool.query("SELECT * FROM report WHERE day = 'monday'");
      expect(rows).toEqual([{ day: 'monday', author: process.pid }]);
    },
  );

  it('has a fence that rejects the report of a holder whom a newer one has overtaken', async () => {
    const { ReportService } = await project.load('report.service.ts');
    const { fencing } = await project.load('entries.ts');
    const app = await start(AppModule);
    const building = app.get(ReportService).build('tuesday');
    const newer = { value: Number.MAX_SAFE_INTEGER, holder: 'b', keys: ['report:tuesday'] };
    await app.get(fencing.Fence).claim(newer);
    await expect(building).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    const { rows } = await database.pool.query("SELECT * FROM report WHERE day = 'tuesday'");
    expect(rows).toEqual([]);
  });

  it('has a pool that outlives a broken connection', () => {
    const log = jest.spyOn(console, 'error').mockReturnValue();
    // It throws without a listener, and would end the process.
    expect(pool.emit('error', new Error('PostgreSQL restarts'))).toBe(true);
    log.mockRestore();
  });

  it('has a test that passes twice without Redis', async () => {
    await expect(runTests(project, 'report.service.spec.ts', 2)).resolves.toBe(1);
  });
});

describe('docs/without-redis.md', () => {
  const openRedlock = useRedlocks();
  const role = `reader_${process.pid}`;
  let project: ConsumerProject;
  let errors: string;
  let pool: Pool;
  beforeAll(async () => {
    const files = programsOf(QUICK_START.path);
    const { code } = blocksOf(WITHOUT_REDIS).find(({ language }) => language === 'diff')!;
    files['app.module.ts'] = changed(files['app.module.ts']!, code);
    project = await ConsumerProject.write(files);
    errors = await project.compile();
    const [, script] = /^node -p "(.+)" > locks.sql$/m.exec(WITHOUT_REDIS.text)!;
    const printing = promisify(execFile)(process.execPath, ['-p', script!], {
      cwd: project.folder,
    });
    await database.pool.query((await printing).stdout);
    const [grant] = /GRANT .+ TO /.exec(WITHOUT_REDIS.text)!;
    await database.pool.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
    const ofApplication = `GRANT SELECT, INSERT, UPDATE, DELETE ON report, redlock_run TO ${role}`;
    await database.pool.query(`${grant}${role}; ${REPORT_TABLE}; ${ofApplication}`);
    const url = new URL(database.url);
    Object.assign(url, { username: role, password: 'secret' });
    process.env.DATABASE_URL = url.href;
    ({ pool } = await project.load('database.ts'));
    process.env.DATABASE_URL = database.url;
  });
  afterAll(async () => {
    await pool.end();
    await database.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  const startReports = async () => {
    const { AppModule } = await project.load('app.module.ts');
    const { ReportService } = await project.load('report.service.ts');
    return (await start(AppModule)).get(ReportService);
  };
  const reportsOf = async (day: string): Promise<unknown> =>
    (await database.pool.query('SELECT author FROM report WHERE day = $1', [day])).rows;

  it('has an application that boots with the rights and the tables of the page, and writes a report', async () => {
    expect(errors).toBe('');
    const reports = await startReports();
    await expect(reports.build('wednesday')).resolves.toBe('report for wednesday');
    expect(await reportsOf('wednesday')).toEqual([{ author: process.pid }]);
  });

  it('has a lock that is the claim: the next one has the late write of the holder before rejected', async () => {
    const building = (await startReports()).build('thursday');
    const rival = await openRedlock([postgresNode(database.pool)]);
    await eventually(async () => {
      const end = 'UPDATE redlock_lease SET valid_until = clock_timestamp() WHERE resource = $1';
      const { rowCount } = await database.pool.query(end, ['lock:report:thursday']);
      expect(rowCount).toBe(1);
    });
    await rival.acquire('report:thursday');
    await expect(building).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(await reportsOf('thursday')).toEqual([]);
  });
});

describe('docs/without-nest.md', () => {
  const servers = useRedisServers(1);

  it('has a script that writes and ends, and so does one that forgets to close its locks', async () => {
    const url = servers[0]!.url;
    const others = {
      'call.ts': "import { assignSeat } from './assign-seat.js';\nvoid assignSeat('12D', 'ana');\n",
      'forget.ts': `import { createLocks } from 'nestjs-fenced-lock/core';
void createLocks({ nodes: ['${url}'] }).then((locks) => locks.withLock('a', () => console.log('done')));\n`,
    };
    const project = await writePrograms('docs/without-nest.md', [url], others);
    // Nothing but a warning of Redis, which goes to stderr.
    await expect(project.run('call.ts')).resolves.toBe('');
    const { rows } = await database.pool.query("SELECT customer FROM seat WHERE id = '12D'");
    expect(rows).toEqual([{ customer: 'ana' }]);
    await expect(project.run('forget.ts')).resolves.toBe('done\n');
  });
});

describe('docs/serverless.md', () => {
  const servers = useRedisServers(1);

  it('has a handler that starts its locks once, and again where that failed', async () => {
    const { handler } = await (await writePrograms('docs/serverless.md')).load('handler.ts');
    process.env.REDIS_URL = 'ftp://nowhere';
    await expect(handler({ order: '1' })).rejects.toMatchObject({ code: 'REDLOCK_CONFIG' });
    process.env.REDIS_URL = servers[0]!.url;
    await expect(handler({ order: '1' })).resolves.toMatch(/^booked with \d{16}$/);
    process.env.REDIS_URL = 'ftp://nowhere';
    await expect(handler({ order: '1' })).resolves.toMatch(/^booked with \d{16}$/);
  });
});

describe('docs/testing.md', () => {
  it('has tests that pass without Redis', async () => {
    const project = await writePrograms('docs/testing.md', [
      'redis://no',
      'redis://no',
      'redis://no',
    ]);
    await expect(runTests(project, 'report.service.spec.ts')).resolves.toBe(3);
  });
});

describe('docs/observability.md', () => {
  it('has a health check that works', async () => {
    const project = await writePrograms('docs/observability.md');
    const { HealthController, HealthModule } = await project.load('health.controller.ts');
    const { main, testing } = await project.load('entries.ts');
    const redlock = main.RedlockModule.forRoot({ nodes: testing.createMemoryNodes(3) });
    const building = Test.createTestingModule({ imports: [redlock, HealthModule] });
    const module = await (await building.setLogger(silentLogger).compile()).init();
    await expect(module.get(HealthController).ready()).resolves.toMatchObject({ status: 'ok' });
    await module.close();
    await expect(module.get(HealthController).ready()).rejects.toMatchObject({ status: 503 });
  });
});

describe('docs/internals/own-fence.md', () => {
  it('has a store that passes the conformance kit, in a test that can be copied', async () => {
    const project = await writePrograms(OWN_FENCE.path);
    await expect(runTests(project, 'documents.spec.ts')).resolves.toBe(1);
  });
});

describe('docs/fencing/http.md', () => {
  it('has a caller and a receiver: a late token gets 412, no token 428', async () => {
    const project = await writePrograms('docs/fencing/http.md');
    const { SeatsController } = await project.load('seats.controller.ts');
    const { assignSeat } = await project.load('seats.client.ts');
    const { fencing, testing } = await project.load('entries.ts');
    const building = Test.createTestingModule({
      controllers: [SeatsController],
      providers: [{ provide: fencing.Fence, useValue: fencing.postgresFence(database.pool) }],
    });
    const compiled = await building.setLogger(silentLogger).compile();
    const app = closeLater(compiled.createNestApplication({ logger: silentLogger }));
    await app.listen(0);
    const url = `${await app.getUrl()}/seats/14A`;
    await database.pool.query("INSERT INTO seat VALUES ('14A')");
    const now = Date.now() * 1_000;
    const token = (number: number) => testing.createFencingToken('seat:14A', number);
    await expect(assignSeat(url, 'ana', token(now + 1))).resolves.toBe(200);
    await expect(assignSeat(url, 'ben', token(now))).resolves.toBe(412);
    await expect(fetch(url, { method: 'PUT' })).resolves.toMatchObject({ status: 428 });
    const { rows } = await database.pool.query(
      "DELETE FROM seat WHERE id = '14A' RETURNING customer",
    );
    expect(rows).toEqual([{ customer: 'ana' }]);
  });
});

describe('docs/controllers.md', () => {
  it('has a stream that holds its lock while it is read, and for no client that has left', async () => {
    const project = await writePrograms('docs/controllers.md');
    const { ChatController, Model } = await project.load('chat.controller.ts');
    const { main, testing } = await project.load('entries.ts');
    const nodes = testing.createMemoryNodes(3);
    const words = new EventEmitter();
    const model = {
      async *words(signal: AbortSignal) {
        yield 'first';
        await once(words, 'more', { signal });
        yield 'last';
      },
    };
    const compiled = await Test.createTestingModule({
      imports: [main.RedlockModule.forRoot({ nodes })],
      controllers: [ChatController],
      providers: [{ provide: Model, useValue: model }],
    })
      .setLogger(silentLogger)
      .compile();
    const app = closeLater(compiled.createNestApplication({ logger: silentLogger }));
    await app.listen(0);
    const locks = app.get<LockService>(main.LockService);
    const keys = () => locks.held().held.flatMap((lock) => lock.keys);
    const url = `${await app.getUrl()}/chats`;
    const open = (id: string) => {
      const leave = new AbortController();
      return { leave, response: fetch(`${url}/${id}`, { signal: leave.signal }) };
    };

    const read = await open('read').response;
    await eventually(() => expect(words.listenerCount('more')).toBe(1));
    expect(keys()).toEqual(['chat:read']);
    words.emit('more');
    expect(await read.text()).toMatch(/first[^]*last/);
    await eventually(() => expect(keys()).toEqual([]));

    const left = open('left');
    await left.response;
    await eventually(() => expect(words.listenerCount('more')).toBe(1));
    left.leave.abort();
    await eventually(() => expect(keys()).toEqual([]));

    const other = await testing.occupy(nodes, 'chat:busy');
    const waiting = open('busy');
    waiting.response.catch(() => undefined);
    await eventually(() => expect(locks.held().waiting).toHaveLength(1));
    waiting.leave.abort();
    await eventually(() => expect(locks.held().waiting).toEqual([]));
    await other.release();

    const early = Array.from({ length: 20 }, (_each, index) => open(`early-${index}`));
    for (const { response, leave } of early) {
      response.catch(() => undefined);
      await setImmediate();
      leave.abort();
    }
    await expect(open('end').response).resolves.toMatchObject({ status: 200 });
    await eventually(() => expect(keys()).toEqual(['chat:end']));
    words.emit('more');
  });
});
