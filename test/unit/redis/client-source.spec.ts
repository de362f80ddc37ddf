import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { AbstractConnector, Cluster, Redis } from 'ioredis';
import { RedlockConfigError } from '../../../lib/core/errors.ts';
import { ClientSource } from '../../../lib/redis/client/client-source.ts';

describe('the address', () => {
  it.each([
    ['redis://ana:hunter2@10.0.0.1:7000/2', '10.0.0.1:7000'],
    ['rediss://:hunter2@redis.example', 'redis.example:6379'],
    ['redis://[::1]:7000', '[::1]:7000'],
    ['10.0.0.1:7000', '10.0.0.1:7000'],
    [' redis://h:7000/2\n', 'h:7000'],
    ['/run/redis.sock', '/run/redis.sock'],
    [{ host: 'h', port: 1, password: 'hunter2' }, 'h:1'],
    [{ path: '/run/redis.sock' }, '/run/redis.sock'],
    ['redis:7000', 'redis:7000'],
    ['redis://[::1]:7000/3/', '[::1]:7000'],
    ['redis://h/?db=3', 'h:6379'],
    ['/run/redis.sock?db=3', '/run/redis.sock'],
    [{ host: 'fe80::1%eth0', port: '1', db: '3', path: undefined }, '[fe80::1%eth0]:1'],
    [{ host: 'h', port: undefined, db: null, path: null }, 'h:6379'],
    [{ host: undefined, port: NaN, path: '/run/@redis.sock' }, '/run/@redis.sock'],
    [Object.assign(Object.create(null), { host: 'h', port: 1 }), 'h:1'],
    [runInNewContext("({ host: 'h', port: 1 })"), 'h:1'],
    [Object.assign(new (class Settings {})(), { host: 'h', port: 1 }), 'h:1'],
    [new Redis('redis://:hunter2@h:2', { lazyConnect: true }), 'h:2'],
    [{ sentinels: [{ host: 's', port: 7 }, { host: 't' }], name: 'm' }, 'm at s:7'],
    [{ sentinels: [{ host: 's' }], name: 'm', sentinelPassword: 'hunter2' }, 'm at s:26379'],
    [new Redis({ sentinels: [{ host: 's' }], name: 'm', lazyConnect: true }), 'm at s:26379'],
    [{ cluster: [{ host: 'h', port: 7 }, { host: 'i' }], password: 'hunter2' }, 'cluster at h:7'],
    [new Cluster(['redis://:hunter2@h:7'], { lazyConnect: true }), 'cluster at h:7'],
    [new Cluster([{ host: 'h' }], { lazyConnect: true }), 'cluster at h:6379'],
    [new Cluster([7000], { lazyConnect: true }), 'cluster at localhost:7000'],
  ])('of %p is %s, without credentials', (input, address) => {
    const source = new ClientSource(input as string, { keyPrefix: '{lock}:' });
    expect(source.address).toBe(address);
    expect(source.create().client.status).toBe('wait');
  });
});

describe('the clients', () => {
  it('keep who and where, and lose what could queue, resend, reconnect or rename', () => {
    const kept = {
      host: 'h',
      username: 'ana',
      password: 'hunter2',
      db: 3,
      connectionName: 'mine',
      tls: { servername: 'sni' },
    };
    const source = new ClientSource({
      ...kept,
      keyPrefix: 'app:',
      commandTimeout: 5,
      enableOfflineQueue: true,
      enableAutoPipelining: true,
      role: 'slave',
      retryStrategy: () => 1,
      replyMapping: 'resp3',
      protocol: 3,
    });
    const { options, status } = source.create().client;
    expect(status).toBe('wait');
    expect(options).toMatchObject({
      ...kept,
      keyPrefix: '',
      role: 'master',
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      autoResubscribe: false,
      enableAutoPipelining: false,
      maxRetriesPerRequest: 0,
      keepAlive: 10_000,
    });
    expect(options.commandTimeout).toBeUndefined();
    expect(options.retryStrategy!(1)).toBeNull();
    expect(source.ignoredKeyPrefix).toBe('app:');
  });

  it('are not changed by options in the query of a URL', () => {
    const source = new ClientSource(
      'redis://h:1?enableOfflineQueue=true&keyPrefix=x:&lazyConnect=',
    );
    expect(source.create().client.options).toMatchObject({
      enableOfflineQueue: false,
      keyPrefix: '',
      host: 'h',
    });
    expect(source.ignoredKeyPrefix).toBe('x:');
  });

  it('leave the client they were made from as it was', () => {
    const client = new Redis({ lazyConnect: true, keyPrefix: 'app:', maxRetriesPerRequest: 7 });
    const before = { ...client.options };
    const made = new ClientSource(client).create().client;
    expect(made).not.toBe(client);
    expect(client.options).toEqual(before);
    expect(client.status).toBe('wait');
  });
});

describe('refused', () => {
  it.each([
    ...['//', '?', '#', '///r.sock', '?host='].map((url) => [url, /this URL: give redis:/]),
    ...['', ' ', '\n'].map((url) => [url, /an empty URL: give redis:/]),
    ...[
      'redis:/10.1.2.3:6380',
      'redis:/',
      'rediss:/h',
      ' redis:/h ',
      'redis:h',
      'REDIS:/h',
      'redis:/:hunter2@h:1',
      'redis:/h:1?password=a@hunter2',
    ].map((url) => [url, /a URL without two slashes: give redis:/]),
    ...[
      'redis://',
      'rediss://',
      'redis:///hunter2',
      'redis://:6379',
      'redis://:hunter2@',
      'redis://ana:hunter2@:6379/2',
      'redis://?host=redis://ana:hunter2@h',
    ].map((url) => [url, /a URL without a host: give redis:/]),
    ['http://hunter2@h', /this URL: give redis:/],
    ['valkey://:hunter2@h', /this URL: give redis:/],
    ['unix:///run/redis.sock', /or the path of a socket/],
    ['redis://:pass@hunter2#9@h', /this URL: .* percent-encoded/],
    ['redis://:hunter2@h?x@h', /this URL/],
    ['redis://a:hunter2@h:port', /this URL/],
    ['redis://a:hunter2%ZZ@h', /this URL/],
    ['redis://:hunter2@a, redis://b', /of one server/],
    ['redis://:hunter2@a,redis://:hunter2@b', /of one server/],
    ['redis://h?path=redis://hunter2', /wrong path/],
    [null, /null: each is a URL/],
    [7, /each is a URL/],
    [[], /each is a URL/],
    ...[
      {},
      { port: 1, password: 'hunter2' },
      { host: undefined, port: 1 },
      { host: '' },
      { path: null, password: 'hunter2' },
      { url: 'redis://:hunter2@h' },
      { socket: { host: 'h' } },
      new URL('redis://:hunter2@h'),
      Promise.resolve('redis://:hunter2@h'),
      Object.create({ host: 'h' }),
      new Redis({ host: '', lazyConnect: true }),
    ].map((input) => [input, /an object without a host: each is a URL/]),
    ...[
      { sentinels: [{ host: 'a' }] },
      { sentinels: [], name: 'm' },
      { sentinels: 'a', name: 'm' },
    ].map((input) => [{ host: 'h', ...input }, /sentinels: give .* name: 'mymaster'/]),
    [{ sentinels: [{ host: 'hunter2@h' }], name: 'm' }, /wrong host/],
    [{ cluster: 'redis://:hunter2@h' }, /an object without a host/],
    [{ cluster: [] }, /an object without a host/, '{lock}:'],
    [{ cluster: [{ host: 'hunter2@h' }] }, /wrong host/, '{lock}:'],
    ...['lock:', '{}lock:', '{}{lock}:', 'lock}{:'].flatMap((keyPrefix) =>
      [{ cluster: [{ host: 'h' }] }, new Cluster(['h:1'], { lazyConnect: true })].map((input) => [
        input,
        /keyPrefix.*: give one with a hash tag, such as '\{lock\}:'/,
        keyPrefix,
      ]),
    ),
    [{ path: 'redis://ana:hunter2@h' }, /wrong path/],
    ['/:hunter2@127.0.0.1:6379', /wrong path/],
    [{ path: 5 }, /wrong path/],
    [{ host: 5 }, /wrong host/],
    ...['redis://ana:hunter2@h', 'ana:hunter2@h', 'h hunter2', 'hunter2/2', ' '].flatMap((host) =>
      [{ host }, new Redis({ host, lazyConnect: true })].map((input) => [input, /wrong host/]),
    ),
    [
      new Redis({
        host: 'h',
        lazyConnect: true,
        Connector: AbstractConnector as never,
      }),
      /a client with a Connector of its own: /,
    ],
    [{ duplicate: () => 'hunter2' }, /a client not of ioredis, such as a mock: .*createMemoryNod/],
    ...[NaN, -1, 1.5, '', 'hunter2', false].map((db) => [
      { host: 'h', db },
      /wrong db: give the n/,
    ]),
    ['redis://h/hunter2', /wrong db/],
    ['redis://a,redis://b', /wrong db/],
    [new Redis('redis://h/abc', { lazyConnect: true }), /wrong db/],
  ] as [unknown, RegExp, string?][])('%p', (...[input, message, keyPrefix]) => {
    let thrown: unknown;
    try {
      new ClientSource(input as string, keyPrefix === undefined ? {} : { keyPrefix });
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(RedlockConfigError);
    expect((thrown as Error).message).toMatch(message);
    expect(JSON.stringify([thrown, (thrown as Error).message])).not.toContain('hunter2');
  });
});

it.each([
  'rediss://h?ssl=true&secure=1',
  'h:1?db=2',
  'redis://h?tls=true&password=p&db=2&family=6',
  'redis://h?socket_timeout=5&ssl_cert_reqs=none&pool_size=10&client_name=a&timeout=3&protocol=3',
])('the query of a URL may have names of another client that reads it: %s', (url) => {
  expect(() => new ClientSource(url)).not.toThrow();
});

describe('messages', () => {
  it('lose the password and what is too long', () => {
    const source = new ClientSource('redis://:p%40ss@h');
    expect(source.conceal("ERR unknown command 'AUTH' beginning with: 'p@ss'")).not.toContain(
      'p@ss',
    );
    expect(source.conceal('x'.repeat(10_000)).length).toBeLessThan(600);
    expect(new ClientSource('redis://h').conceal('unchanged')).toBe('unchanged');
  });

  it('lose a password that the server quotes in its own way: with blanks, or the beginning of it', () => {
    const broken = new ClientSource('redis://:p%0As@h');
    expect(broken.conceal("ERR unknown command, beginning with: 'p s '")).not.toContain('p s');
    const token = Array.from({ length: 300 }, (_, index) => index).join('');
    const long = new ClientSource({ host: 'h', password: token });
    const concealed = long.conceal(`ERR unknown command, beginning with: '${token.slice(0, 126)}`);
    expect(concealed).toBe("ERR unknown command, beginning with: '***");
  });

  it('lose also what credentials() gave for connections before, which may end later', async () => {
    let connections = 0;
    const credentials = () => ({ password: `p@ss${(connections += 1)}` });
    const source = new ClientSource('redis://h', { credentials });
    for (let each = 0; each < 4; each += 1) await source.authorize(source.create().client);
    expect(source.conceal('p@ss1, p@ss2, p@ss3, p@ss4')).toBe('***, ***, ***, ***');
  });

  it('lose the password for the Sentinels', () => {
    const sentinels = { sentinels: [{ host: 's' }], name: 'm', sentinelPassword: 'p@ss' };
    expect(new ClientSource(sentinels).conceal("ERR unknown command, with 'p@ss'")).toBe(
      "ERR unknown command, with '***'",
    );
  });

  it('have no line breaks', () => {
    const source = new ClientSource('redis://:p%0As@h');
    expect(source.conceal('one\n  two p\ns\r\n')).toBe('one two ***');
  });
});
