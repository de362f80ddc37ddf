import { spawn } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { Link } from '../support/link.ts';
import { eventually } from '../support/eventually.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';

const PROGRAM_START = `
import { Redlock } from './lib/core/redlock.ts';
import { createRedisNode } from './test/support/clients.ts';
const nodes = process.env.URLS.split(',').map((url) => createRedisNode(url));
const redlock = new Redlock(nodes, { ttl: 3_000, nodeTimeout: 1_000, wait: '1m', restartGuard: false });
redlock.open();
await redlock.ready(60_000);
const say = (word) => process.stdout.write(word + '\\n');
const hear = (wanted) => new Promise((resolve) => process.stdin.on('data', (data) => {
  if (String(data).includes(wanted)) resolve();
}));
`;

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a program in a process of its own, which an unhandled rejection would end with an error. */
function run(
  program: string,
  urls: readonly string[],
  onLine: (line: string, tell: (word: string) => void) => void = () => undefined,
): Promise<Ended> {
  const child = spawn(
    process.execPath,
    [
      '--unhandled-rejections=strict',
      '--disable-warning=ExperimentalWarning',
      '--import',
      './test/support/typescript-loader.mjs',
      '--input-type=module',
      '--eval',
      PROGRAM_START + program,
    ],
    { cwd: process.cwd(), env: { ...process.env, URLS: urls.join(',') } },
  );
  return new Promise((resolve) => {
    let output = '';
    const hang = setTimeout(() => child.kill('SIGKILL'), 100_000);
    const collect = (data: Buffer) => {
      output += String(data);
      for (const line of String(data).split('\n').filter(Boolean)) {
        onLine(line, (word) => child.stdin.write(`${word}\n`));
      }
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.on('close', (code) => {
      clearTimeout(hang);
      resolve({ code, output });
    });
  });
}

describe('a process', () => {
  let servers: RedisServer[];
  beforeAll(async () => {
    servers = await startRedisServers(3, { own: true });
  });
  afterAll(() => Promise.all(servers.map((server) => server.stop())));
  const urls = () => servers.map(({ url }) => url);

  it('is never crashed by errors of extensions and releases', async () => {
    const ended = await run(
      `
      const lock = await redlock.acquire('crash');
      const { signal } = lock;
      const killed = hear('killed');
      say('held');
      await killed;
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
      await lock.release();
      await redlock.withLock('other', () => 1, { wait: 300 }).catch((error) => say(error.code));
      process.stdin.unref();
      await redlock.close();
      say('closed');
      `,
      urls(),
      (line, tell) => {
        if (line !== 'held') return;
        void Promise.all(servers.map((server) => server.kill())).then(() => tell('killed'));
      },
    );
    for (const server of servers) if (!server.isRunning) await server.restart();
    expect(ended).toEqual({ code: 0, output: 'held\nQUORUM_UNAVAILABLE\nclosed\n' });
  });

  it('that was stopped while the network forgot its connections is granted its first lock', async () => {
    const link = await Link.open(servers[0]!);
    const ended = await run(
      `
      const frozen = new Redlock(nodes.map(({ address }) => createRedisNode('redis://' + address)));
      frozen.open();
      const warm = await frozen.acquire('thaw', { wait: '1m' });
      const waiting = frozen.acquire('thaw', { wait: '1m' });
      await warm.release();
      await (await waiting).release();
      say(process.pid);
      await hear('go');
      await frozen.acquire('thaw', { wait: '1m' }).then(() => say('granted'), (error) => say(String(error)));
      process.exit();
      `,
      [link.url],
      (line, tell) => {
        const pid = Number(line);
        if (Number.isNaN(pid)) return;
        process.kill(pid, 'SIGSTOP');
        link.forget();
        tell('go');
        setTimeout(() => process.kill(pid, 'SIGCONT'), 4_000);
      },
    );
    await link.close();
    expect(ended.output).toMatch(/^\d+\ngranted\n$/);
  });

  it('that exits directly after its last section has released it', async () => {
    const keys = ['exit:1', 'exit:2', 'exit:3'];
    const ended = await run(
      `
      const lasting = new Redlock(process.env.URLS.split(',').map((url) => createRedisNode(url)), { ttl: '1m', nodeTimeout: '20s', wait: '1m', restartGuard: false });
      lasting.open();
      await lasting.ready(60_000);
      for (const key of ${JSON.stringify(keys)}) await lasting.withLock(key, () => undefined);
      process.exit(0);
      `,
      urls(),
    );
    expect(ended).toEqual({ code: 0, output: '' });
    for (const url of urls()) {
      const admin = new Redis(url);
      const held = () => admin.exists(keys.map((key) => `lock:${key}`));
      await eventually(async () => expect(await held()).toBe(0)).finally(() => admin.disconnect());
    }
  });

  it.each([
    ['a factory that used a lock', 'up', 'compile'],
    ['a factory that used a lock', 'down', 'compile'],
    ['another onModuleInit', 'up', 'init'],
  ])('ends by itself when its start failed in %s, with Redis %s', async (_where, state, step) => {
    const ended = await run(
      `
      import { LockService, RedlockModule } from './lib/index.ts';
      import { Test } from '@nestjs/testing';
      await redlock.close();
      process.stdin.unref();
      const port = '${state}' === 'up' ? new URL(process.env.URLS.split(',')[0]).port : 1;
      const url = 'redis://localhost:' + port;
      const fail = () => { throw new Error('its own'); };
      const useFactory = (locks) => locks.withLock('migrate', () => {
        if ('${step}' === 'compile') fail();
        return { onModuleInit: fail };
      }, { wait: '${state}' === 'up' ? '1m' : 300 });
      const provider = { provide: 'MIGRATED', inject: [LockService], useFactory };
      const imports = [RedlockModule.forRoot({ nodes: [url], restartGuard: false })];
      const start = Test.createTestingModule({ imports, providers: [provider] }).compile();
      await start.then((module) => module.init()).catch((error) => say(error.code ?? error.message));
      `,
      urls(),
    );
    const said = state === 'up' ? 'its own' : 'QUORUM_UNAVAILABLE';
    expect(ended).toEqual({ code: 0, output: `${said}\n` });
  });

  it('is kept alive by the connections of an application that has started, until it is closed', async () => {
    const ended = await run(
      `
      import { LockService, RedlockModule } from './lib/index.ts';
      import { NestFactory } from '@nestjs/core';
      await redlock.close();
      process.stdin.unref();
      class AppModule {}
      const useFactory = (locks) => locks.withLock('migrate', () => 'done', { wait: '1m' });
      const provider = { provide: 'MIGRATED', inject: [LockService], useFactory };
      const imports = [RedlockModule.forRoot({ nodes: [process.env.URLS.split(',')[0]], restartGuard: false })];
      const root = { module: AppModule, imports, providers: [provider] };
      const app = await NestFactory.createApplicationContext(root, { logger: false });
      setTimeout(() => { say('alive'); void app.close().then(() => say('closed')); }, 1_000).unref();
      `,
      urls(),
    );
    expect(ended).toEqual({ code: 0, output: 'alive\nclosed\n' });
  });
});
