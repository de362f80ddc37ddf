import 'reflect-metadata';
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { Test } from '@nestjs/testing';
import type { LoggerService } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService, RedlockConfigError, RedlockModule } from '../../lib/index.ts';
import type { LockEvent, NodeInput, RedlockModuleOptions } from '../../lib/index.ts';
import { eventually } from '../support/eventually.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';

/** A part of every password here; percent-encoded and decoded forms both contain it. */
const SECRET = 'hunter2';
const PASSWORD = `${SECRET}/+@ :"`;

/** All that an application could write down: log lines, events, errors with every property, however deep. */
class Records implements LoggerService {
  readonly entries: unknown[] = [];
  log = (...line: unknown[]) => void this.entries.push(line);
  warn = (...line: unknown[]) => void this.entries.push(line);
  error = (...line: unknown[]) => void this.entries.push(line);
  onEvent = (event: LockEvent) => void this.entries.push(event);

  /** Every form in which a log could have one of them. */
  get written(): string {
    assert.notEqual(this.entries.length, 0);
    const everything = { depth: Infinity, showHidden: true, maxStringLength: Infinity };
    return this.entries
      .flatMap((entry) => [inspect(entry, everything), JSON.stringify(entry), String(entry)])
      .join('\n');
  }
}

const open: { close(): Promise<void> }[] = [];

async function start(
  records: Records,
  nodes: unknown,
  options: Partial<RedlockModuleOptions> = {},
) {
  const module = await Test.createTestingModule({
    imports: [
      RedlockModule.forRoot({
        nodes: nodes as NodeInput[],
        restartGuard: false,
        startupTimeout: '20s',
        onEvent: records.onEvent,
        ...options,
      }),
    ],
  })
    .setLogger(records)
    .compile();
  open.push(module);
  await module.init();
  return module;
}

async function refusal(records: Records, nodes: unknown): Promise<Error> {
  const error = await start(records, nodes, { startupTimeout: '300ms' }).then(
    () => undefined,
    (refused: unknown) => refused as Error,
  );
  assert.ok(error instanceof RedlockConfigError);
  records.entries.push(error, error.message, error.stack);
  return error;
}

let server: RedisServer;

beforeAll(async () => {
  [server] = (await startRedisServers(1, { requirepass: PASSWORD })) as [RedisServer];
});
afterEach(async () => {
  for (const module of open.splice(0)) await module.close().catch(() => undefined);
});
afterAll(() => server.stop());

const withLogin = (login: string) => `redis://${login}@${server.host}:${server.port}`;

describe('a password', () => {
  it('is in no log line and no event of a module that works, loses its node and finds it again', async () => {
    const records = new Records();
    const module = await start(records, [withLogin(`:${encodeURIComponent(PASSWORD)}`)]);
    const locks = module.get(LockService);
    await locks.withLock('a', () => undefined);
    const { canFault } = server;
    if (canFault) {
      await server.kill();
      records.entries.push(await locks.acquire('a', { wait: 0 }).catch((error: unknown) => error));
      await server.restart();
      await eventually(() => locks.withLock('a', () => undefined));
    }
    records.entries.push(await locks.inspect('a'));
    const types = records.entries.map((entry) => (entry as LockEvent).type);
    expect(types).toEqual(expect.arrayContaining(['node-joined', 'acquired', 'released']));
    const lossy = canFault ? ['node-left', 'unavailable'] : [];
    expect(types).toEqual(expect.arrayContaining(lossy));
    expect(records.written).not.toContain(SECRET);
  });

  it.each([
    ['a wrong password', () => [withLogin(`:${SECRET}-wrong`)]],
    ['a wrong user', () => [withLogin(`${SECRET}:${SECRET}`)]],
    ['options', () => [{ host: server.host, port: server.port, password: `${SECRET}-wrong` }]],
    ['nobody there', () => [`redis://:${SECRET}@127.0.0.1:1`]],
    ['a password in the query', () => [`redis://127.0.0.1:1?password=${SECRET}`]],
    ['TLS to a server without it', () => [withLogin(`:${SECRET}`).replace('redis:', 'rediss:')]],
    [
      'a key in the options',
      () => [{ host: server.host, port: server.port, tls: { key: SECRET, passphrase: SECRET } }],
    ],
    ['the same server twice', () => [withLogin(`:${SECRET}`), withLogin(`:${SECRET}`)]],
    ['a URL in place of the array', () => withLogin(`:${SECRET}`)],
    ['an array in an array', () => [[withLogin(`:${SECRET}`)]]],
    ['options in place of the array', () => ({ host: server.host, password: SECRET })],
    ['a URL of another kind', () => [`http://:${SECRET}@${server.host}`]],
    ['a malformed URL', () => [`redis://:${SECRET}%ZZ@${server.host}`]],
    ['a port that is none', () => [`redis://:${SECRET}@${server.host}:port`]],
    ['a URL in a wrong option', () => [{ url: withLogin(`:${SECRET}`), port: 1 }]],
    [
      'sentinels',
      () => [{ sentinels: [{ host: 'h' }], name: 'm', sentinelPassword: SECRET, password: SECRET }],
    ],
  ])('is in no log line, event or error of a start that is refused: %s', async (_, nodes) => {
    const records = new Records();
    await refusal(records, nodes());
    expect(records.written).not.toContain(SECRET);
  });
});
