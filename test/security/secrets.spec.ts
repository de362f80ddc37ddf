import 'reflect-metadata';
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import type { LoggerService } from '@nestjs/common';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { isRedlockError } from '../../lib/index.ts';
import type { LockEvent, NodeInput, RedlockModuleOptions } from '../../lib/index.ts';
import { clientOf } from '../support/clients.ts';
import { eventually } from '../support/eventually.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { useLockModules, type LockModule } from './use-lock-modules.ts';

/** A part of every password here; percent-encoded and decoded forms both contain it. */
const SECRET = 'hunter2';
const PASSWORD = `${SECRET}/+@ :"`;

/** Collects all that an application could write down: log lines, events, errors with every property, however deep. */
class Records implements LoggerService {
  readonly entries: unknown[] = [];
  log = (...line: unknown[]) => void this.entries.push(line);
  warn = (...line: unknown[]) => void this.entries.push(line);
  error = (...line: unknown[]) => void this.entries.push(line);
  onEvent = (event: LockEvent) => void this.entries.push(event);

  /** Text of the entries, in every form in which a log could have one of them. */
  get written(): string {
    assert.notEqual(this.entries.length, 0);
    const everything = { depth: Infinity, showHidden: true, maxStringLength: Infinity };
    return this.entries
      .flatMap((entry) => [inspect(entry, everything), JSON.stringify(entry), String(entry)])
      .join('\n');
  }
}

const servers = useRedisServers(1, { requirepass: PASSWORD });
const startModule = useLockModules();

function start(
  records: Records,
  nodes: unknown,
  options: Partial<RedlockModuleOptions> = {},
): Promise<LockModule> {
  const { onEvent } = records;
  const all = {
    nodes: nodes as NodeInput[],
    wait: '1m',
    restartGuard: false,
    onEvent,
    ...options,
  } as const;
  return startModule(all, records);
}

/** Records what was written while a start was refused, and the error. */
async function refusal(nodes: unknown): Promise<Records> {
  const records = new Records();
  const error = await start(records, nodes, { startupTimeout: '300ms' }).catch(
    (refused: unknown) => refused,
  );
  assert.ok(isRedlockError(error));
  records.entries.push(error, error.message, error.stack);
  return records;
}

const address = () => ({ host: servers[0]!.host, port: servers[0]!.port });
const withLogin = (login: string) => `redis://${login}@${address().host}:${address().port}`;

const REFUSED: readonly (readonly [name: string, nodes: () => unknown])[] = [
  ['a wrong password', () => [clientOf(withLogin(`:${SECRET}-wrong`))]],
  ['a wrong user', () => [clientOf(withLogin(`${SECRET}:${SECRET}`))]],
  ['options', () => [clientOf({ ...address(), password: `${SECRET}-wrong` })]],
  ['an address without a server', () => [clientOf(`redis://:${SECRET}@127.0.0.1:1`)]],
  ['a password in the query', () => [`redis://127.0.0.1:1?password=${SECRET}`]],
  [
    'TLS to a server without it',
    () => [clientOf(withLogin(`:${SECRET}`).replace('redis:', 'rediss:'))],
  ],
  [
    'a key in the options',
    () => [clientOf({ ...address(), tls: { key: SECRET, passphrase: SECRET } })],
  ],
  [
    'the same server twice',
    () => [withLogin(`:${SECRET}`), withLogin(`:${SECRET}`)].map((url) => clientOf(url)),
  ],
  ['a URL in place of the array', () => withLogin(`:${SECRET}`)],
  ['an array in an array', () => [[withLogin(`:${SECRET}`)]]],
  ['options in place of the array', () => ({ ...address(), password: SECRET })],
  ['a URL of another kind', () => [`http://:${SECRET}@${address().host}`]],
  ['a malformed URL', () => [`redis://:${SECRET}%ZZ@${address().host}`]],
  ...[
    '@hunter2#9',
    '@hunter2?x',
    '@hunter2/x',
    'x#hunter2',
    '#hunter2@x?',
    '@1#hunter2&password=a',
  ].map(
    (rest) =>
      [`a password that is not encoded (${rest})`, () => [withLogin(`:${SECRET}${rest}`)]] as const,
  ),
  [
    'the same without a scheme',
    () => [withLogin(`:${SECRET}@${SECRET}#9`).replace('redis://', '')],
  ],
  ['a port that is not a number', () => [`redis://:${SECRET}@${address().host}:port`]],
  ['a URL in a wrong option', () => [{ url: withLogin(`:${SECRET}`), port: 1 }]],
  ['a URL as host', () => [{ host: withLogin(`:${SECRET}`) }]],
  ['a URL as path', () => [{ path: withLogin(`:${SECRET}`) }]],
  ['a password as database', () => [`redis://${address().host}/${SECRET}`]],
  [
    'sentinels',
    () => [{ sentinels: [{ host: 'h' }], name: 'm', sentinelPassword: SECRET, password: SECRET }],
  ],
];

/** Records of all refused starts, which are made at once, as most take their whole timeout. */
const refusals = new Map<string, Promise<Records>>();
beforeAll(async () => {
  for (const [name, nodes] of REFUSED) refusals.set(name, refusal(nodes()));
  await Promise.allSettled(refusals.values());
});

describe('a password', () => {
  it('a password is in no log line and no event of a module that works, loses its node and finds it again', async () => {
    const records = new Records();
    const [server] = servers as [RedisServer];
    const { locks } = await start(records, [withLogin(`:${encodeURIComponent(PASSWORD)}`)]);
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

  it.each(REFUSED)(
    'a password is in no log line, event or error of a start that is refused: %s',
    async (name) => {
      expect((await refusals.get(name))!.written).not.toContain(SECRET);
    },
  );
});
