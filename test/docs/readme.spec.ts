import 'reflect-metadata';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
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
import {
  removeProjects,
  runTests,
  writePrograms,
  type ConsumerProject,
} from './consumer-project.ts';
import { readPage } from './pages.ts';

afterEach(closeAll);
afterAll(removeProjects);

const OWN_FENCE = readPage('docs/internals/own-fence.md');
const QUICK_START = readPage('docs/quick-start.md');
const WITHOUT_REDIS = readPage('docs/without-redis.md');

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

describe('the README', () => {
  const servers = useRedisServers(1);
  let project: ConsumerProject;
  let pool: Pool;
  let AppModule: unknown;
  beforeAll(async () => {
    project = await writePrograms('README.md', [servers[0]!.url]);
    ({ AppModule } = await project.load('app.module.ts'));
    ({ pool } = await project.load('database.ts'));
  });
  afterAll(() => pool.end());

  /** An application that charges at once. */
  async function startQuick() {
    const { SeatService } = await project.load('seat.service.ts');
    const app = await start(AppModule);
    const seats = app.get(SeatService);
    seats.charge = async () => undefined;
    return { app, seats };
  }

  it.each(['once', 'twice'])(
    'has a lock and a cron job that boot, lock on a server, and leave nothing held: %s',
    async () => {
      const { ReportService } = await project.load('report.service.ts');
      const { LockService } = await project.loadPackage();
      const app = await start(AppModule);
      const reports = app.get(ReportService);
      await expect(reports.nightly()).resolves.toBeUndefined();
      await expect(reports.build('ana')).resolves.toBe('report for ana');
      const known = await app.get(LockService).inspect('report:ana');
      expect([known.holder, Number(known.lastToken) > 0]).toEqual([null, true]);
    },
  );

  it('has a fence that lets a newer holder book, and refuses the older one, twice', async () => {
    const { isRedlockError } = await project.loadPackage();
    const redis = new Redis(servers[0]!.url);
    closeLater({ close: () => redis.quit() });
    const [{ seats }, another] = [await startQuick(), await startQuick()];
    await expect(seats.book('12A', 'ana')).resolves.toBe('booked');
    await expect(seats.book('12A', 'ben')).resolves.toBe('not free');
    await expect(seats.book('99Z', 'ben')).resolves.toBe('not free');
    for (const seat of ['12B', '12C']) {
      seats.charge = async () => {
        await redis.del(`lock:seat:${seat}`);
        await another.seats.book(seat, 'ben');
      };
      const late: unknown = await seats.book(seat, 'ana').catch((error: unknown) => error);
      expect(isRedlockError(late) && late.code).toBe('STALE_TOKEN');
    }
    const booked = "SELECT customer FROM seat WHERE id < '12D' ORDER BY id";
    const { rows } = await database.pool.query(booked);
    expect(rows.map(({ customer }) => customer)).toEqual(['ana', 'ben', 'ben']);
  });

  it('has a fence that keeps the booking of a holder whose lock was lost without a rival', async () => {
    const { LockService } = await project.loadPackage();
    const { app, seats } = await startQuick();
    const redis = new Redis(servers[0]!.url);
    closeLater({ close: () => redis.quit() });
    seats.charge = async () => {
      const { signal } = app.get(LockService).current()!;
      await redis.set('lock:seat:12D', 'a value of another client', 'PX', 3_600_000);
      if (!signal.aborted) await once(signal, 'abort');
    };
    await expect(seats.book('12D', 'ana')).resolves.toBe('booked');
  });

  it('has a test that passes twice without Redis', async () => {
    await expect(runTests(project, 'report.service.spec.ts', 2)).resolves.toBe(1);
  });
});

describe('docs/quick-start.md', () => {
  const servers = useRedisServers(1);

  it('has an application that boots, writes a report through the fence, and outlives a broken connection', async () => {
    await database.pool.query(/CREATE TABLE IF NOT EXISTS report .+/.exec(QUICK_START.text)![0]);
    const project = await writePrograms(QUICK_START.path, [servers[0]!.url]);
    const { pool } = await project.load('database.ts');
    closeLater({ close: () => pool.end() });
    const { AppModule } = await project.load('app.module.ts');
    const { ReportController } = await project.load('report.controller.ts');
    const app = await start(AppModule);
    await expect(app.get(ReportController).build('monday')).resolves.toBe('report for monday');
    const { rows } = await database.pool.query('SELECT * FROM report');
    expect(rows).toEqual([{ day: 'monday', author: process.pid }]);
    const log = jest.spyOn(console, 'error').mockReturnValue();
    // It throws without a listener, and would end the process.
    expect(pool.emit('error', new Error('PostgreSQL restarts'))).toBe(true);
    log.mockRestore();
  });
});

describe('docs/without-redis.md', () => {
  const openRedlock = useRedlocks();
  const role = `reader_${process.pid}`;
  let project: ConsumerProject;
  let pool: Pool;
  beforeAll(async () => {
    project = await writePrograms(WITHOUT_REDIS.path);
    const [, script] = /^node -p "(.+)" > locks.sql$/m.exec(WITHOUT_REDIS.text)!;
    const printing = promisify(execFile)(process.execPath, ['-p', script!], {
      cwd: project.folder,
    });
    await database.pool.query((await printing).stdout);
    const [grant] = /GRANT .+ TO /.exec(WITHOUT_REDIS.text)!;
    await database.pool.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
    await database.pool.query(`${grant}${role}; GRANT SELECT, UPDATE ON seat TO ${role}`);
    await database.pool.query("INSERT INTO seat VALUES ('16A'), ('16B')");
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

  it.each(['once', 'twice'])(
    'has an application that boots with the rights and the tables of the page, and books a seat: %s',
    async (times) => {
      const { AppModule } = await project.load('app.module.ts');
      const { SeatService } = await project.load('seat.service.ts');
      const seats = (await start(AppModule)).get(SeatService);
      seats.charge = async () => undefined;
      const outcome = times === 'once' ? 'booked' : 'not free';
      await expect(seats.book('16A', 'ana')).resolves.toBe(outcome);
    },
  );

  it('has a lock that is the claim: the next one has the late write of the holder before rejected', async () => {
    const { AppModule } = await project.load('app.module.ts');
    const { SeatService } = await project.load('seat.service.ts');
    const seats = (await start(AppModule)).get(SeatService);
    const rival = await openRedlock([postgresNode(database.pool)]);
    seats.charge = async () => {
      const end = 'UPDATE redlock_lease SET valid_until = clock_timestamp() WHERE resource = $1';
      await database.pool.query(end, ['lock:seat:16B']);
      await rival.acquire('seat:16B');
    };
    await expect(seats.book('16B', 'ana')).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    const { rows } = await database.pool.query("SELECT customer FROM seat WHERE id = '16B'");
    expect(rows).toEqual([{ customer: null }]);
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

describe('docs/cron.md', () => {
  it('has an application whose job writes what it has done, and can be asked for it', async () => {
    const project = await writePrograms('docs/cron.md');
    const { pool, AppModule } = await project.load('app.module.ts');
    closeLater({ close: () => pool.end() });
    const { tables } = await project.load('migration.ts');
    const [night] = /CREATE TABLE night [^`]+/.exec(readPage('docs/cron.md').text)!;
    for (const sql of [...tables, night]) await database.pool.query(sql);
    const { NightlyService } = await project.load('nightly.service.ts');
    const nights = (await start(AppModule)).get(NightlyService);
    await nights.report();
    const last = await nights.lastReport();
    expect(last).toMatchObject({ name: 'nightly', outcome: 'done', attempt: 1 });
    const { rows } = await database.pool.query('SELECT * FROM night');
    expect(rows).toEqual([{ scheduled: last.scheduled }]);
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
  it('has a health check and a listener that work', async () => {
    const project = await writePrograms('docs/observability.md');
    const { HealthController, HealthModule } = await project.load('health.controller.ts');
    const { countEvents } = await project.load('lock-metrics.ts');
    const counted: string[] = [];
    const { main, testing } = await project.load('entries.ts');
    const redlock = main.RedlockModule.forRoot({
      nodes: testing.createMemoryNodes(3),
      onEvent: countEvents((name: string) => counted.push(name)),
    });
    const building = Test.createTestingModule({ imports: [redlock, HealthModule] });
    const module = await (await building.setLogger(silentLogger).compile()).init();
    await expect(module.get(HealthController).ready()).resolves.toMatchObject({ status: 'ok' });
    await module.get<LockService>(main.LockService).withLock('a', () => undefined);
    expect(counted).toEqual(expect.arrayContaining(['locks.acquired', 'locks.released']));
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

describe('docs/migration.md', () => {
  const servers = useRedisServers(1);

  it('has an application whose lock excludes one of @anchan828/nest-redlock, which sets the same name', async () => {
    const project = await writePrograms('docs/migration.md', [servers[0]!.url]);
    const { AppModule, Comments } = await project.load('app.module.ts');
    const comments = (await start(AppModule)).get(Comments);
    await expect(comments.addComment(7, 'first')).resolves.toBe('7: first');
    const redis = new Redis(servers[0]!.url);
    await redis.set('projects/7/comments', 'another', 'PX', 60_000, 'NX');
    await expect(comments.addComment(7, 'late')).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    await redis.quit();
  });
});
