import { readFileSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { RedlockConfigError } from '../../../lib/core/errors.ts';
import { ConnectionSource } from '../../../lib/redis/connection/connection-source.ts';

describe('the address', () => {
  it.each([
    ['redis://ana:hunter2@10.0.0.1:7000/2', '10.0.0.1:7000'],
    ['rediss://:hunter2@redis.example', 'redis.example:6379'],
    ['redis://[::1]:7000', '[::1]:7000'],
    ['10.0.0.1:7000', '10.0.0.1:7000'],
    ['/run/redis.sock', '/run/redis.sock'],
    [{ host: 'h', port: 1, password: 'hunter2' }, 'h:1'],
    [{ path: '/run/redis.sock' }, '/run/redis.sock'],
    [{}, 'localhost:6379'],
    [{ password: 'hunter2' }, 'localhost:6379'],
    ['redis:7000', 'redis:7000'],
    ['6380', 'localhost:6380'],
    ['//h:1', 'h:1'],
    ['redis://[::1]:7000/3/', '[::1]:7000'],
    ['redis://h/?db=3', 'h:6379'],
    ['redis://?host=h&port=1', 'h:1'],
    ['redis://?path=/run/redis.sock', '/run/redis.sock'],
    ['/run/redis.sock?db=3', '/run/redis.sock'],
    [{ port: 6380 }, 'localhost:6380'],
    [{ host: 'fe80::1%eth0', port: '1', db: '3', path: undefined }, '[fe80::1%eth0]:1'],
    [{ host: 'h', port: undefined, db: null, path: null }, 'h:6379'],
    [{ host: undefined, port: NaN, path: '/run/@redis.sock' }, '/run/@redis.sock'],
    [Object.assign(Object.create(null), { host: 'h', port: 1 }), 'h:1'],
    [runInNewContext("({ host: 'h', port: 1 })"), 'h:1'],
    [Object.assign(new (class Settings {})(), { host: 'h', port: 1 }), 'h:1'],
    [new Redis('redis://:hunter2@h:2', { lazyConnect: true }), 'h:2'],
  ])('of %p is %s, without credentials', (input, address) => {
    expect(new ConnectionSource(input as string).address).toBe(address);
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
    const source = new ConnectionSource({
      ...kept,
      keyPrefix: 'app:',
      commandTimeout: 5,
      enableOfflineQueue: true,
      enableAutoPipelining: true,
      retryStrategy: () => 1,
      replyMapping: 'resp3',
      protocol: 3,
    });
    const { options, status } = source.create();
    expect(status).toBe('wait');
    expect(options).toMatchObject({
      ...kept,
      keyPrefix: '',
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
    const source = new ConnectionSource(
      'redis://h:1?enableOfflineQueue=true&keyPrefix=x:&lazyConnect=',
    );
    expect(source.create().options).toMatchObject({
      enableOfflineQueue: false,
      keyPrefix: '',
      host: 'h',
    });
    expect(source.ignoredKeyPrefix).toBe('x:');
  });

  it('leave the client they were made from as it was', () => {
    const client = new Redis({ lazyConnect: true, keyPrefix: 'app:', maxRetriesPerRequest: 7 });
    const before = { ...client.options };
    const made = new ConnectionSource(client).create();
    expect(made).not.toBe(client);
    expect(client.options).toEqual(before);
    expect(client.status).toBe('wait');
  });
});

describe('refused', () => {
  it.each([
    ['', /redis:\/\/host:6379/],
    ['http://hunter2@h', /redis:\/\/host:6379/],
    ['valkey://:hunter2@h', /"valkey:.* give redis:\/\/host/],
    ['unix:///run/redis.sock', /"unix:.* the path of a socket alone/],
    [{ host: '[::1]', port: 1 }, /wrong host .*without the brackets/],
    [
      new (class RedisMock {
        options = {};
        duplicate() {}
      })(),
      /createMemoryNodes/,
    ],
    ['redis://:pass@hunter2#9@h', /malformed URL: .* percent-encoded/],
    ['redis://a:hunter2@h:port', /malformed URL/],
    ['redis://a:hunter2%ZZ@h', /malformed URL/],
    [null, /each is a URL/],
    [7, /each is a URL/],
    [[], /each is a URL/],
    ['redis://:hunter2@a, redis://b', /several URLs .* urls\.split\(\/\\s\*,\\s\*\/\)/],
    [' redis://:hunter2@b', /begins with a blank: trim it/],
    ['redis://:hunter2@b?ssl=true', /write rediss:/],
    ...['redis:/h:1', 'rediss//h:1', 'h:1/2', 'redis/2'].map((url) => [url, /malformed URL: give/]),
    ['redis:/:hunter2@h:1', /malformed URL: give redis:\/\/user:password@host/],
    ['redis:/h:1?password=a@hunter2', /malformed URL: give redis:\/\/user:password@host/],
    ...[
      new URL('redis://:hunter2@h'),
      Promise.resolve('redis://:hunter2@h'),
      new Map([['host', 'h']]),
      new (class Settings {})(),
      Object.create({ host: 'h' }),
      Object.create({ tls: {} }, { host: { value: 'h' } }),
      Object.assign(Object.create({ host: 'h' }) as object, { port: 1 }),
    ].map((input) => [input, /without a host: each is a URL/]),
    [{ host: 'h', sentinels: [{ host: 'a' }] }, /Sentinel/],
    [{ host: 'h', sentinels: [] }, /Sentinel/],
    [{ sentinels: [{ host: 'h', port: 1 }], name: 'm', password: 'hunter2' }, /Sentinel/],
    [new Cluster([{ host: 'h', port: 1 }], { lazyConnect: true }), /independent masters/],
    ...[
      'redis://',
      '//',
      '?',
      '#',
      'redis:///hunter2',
      '///r.sock',
      'redis://?port=1',
      '?host=',
    ].map((url) => [
      url,
      /a URL without a host: give redis:\/\/host:port, or the path of a socket/,
    ]),
    ...[undefined, null, ''].map((host) => [{ host, port: 1 }, /wrong host \((und|null|empty)/]),
    ...[undefined, null, ''].map((path) => [{ path, password: 'hunter2' }, /wrong path \(/]),
    [{ path: 'redis://ana:hunter2@h' }, /wrong path \(a URL\): give a URL itself as the node/],
    [{ path: 5 }, /wrong path \(a number\)/],
    [{ host: 5 }, /wrong host \(a number\)/],
    [{ host: new URL('redis://hunter2@h') }, /wrong host \(an object\)/],
    ...['redis://ana:hunter2@h', 'ana:hunter2@h', 'h hunter2', 'h\n', 'hunter2/2', ' '].flatMap(
      (host) =>
        [{ host }, { host, sentinels: null }, new Redis({ host, lazyConnect: true })].map(
          (input) => [
            input,
            /wrong host \(one with .* blanks\): .*URL itself as the node, in place/,
          ],
        ),
    ),
    ['redis://?host=redis://ana:hunter2@h', /a URL with a wrong host/],
    [{ host: 'redis://ana:hunter2@h', sentinels: [] }, /Sentinel/],
    [{ host: 5, sentinels: [] }, /Sentinel/],
    [{ duplicate: () => 'hunter2' }, /a client not of ioredis/],
    ...[NaN, -1, 1.5, 65_536, '', 'hunter2', '1a', null, {}].map((port) => [
      { host: 'h', port },
      /options with a wrong port \(.*\): give a whole number up to 65535/,
    ]),
    ['redis://h?port=hunter2', /a URL with a wrong port/],
    ['99999', /a URL with a wrong port/],
    ...[NaN, -1, 1.5, Infinity, 1e21, '', 'hunter2', '3a', '1.5', false, {}, [3]].map((db) => [
      { host: 'h', db },
      /options with a wrong db \(.*\): give the number of a database, from 0/,
    ]),
    ...['/hunter2', '/lock:', '//', '/3a', '/3/4', '/-1', '?db=hunter2', '?db=', '/a?db=3'].map(
      (rest) => [`redis://h${rest}`, /a URL with a wrong db \(/],
    ),
    ['/run/redis.sock?db=hunter2', /a URL with a wrong db/],
    ['h:1?db=3a', /a URL with a wrong db/],
    ...['ca', 'cert', 'key'].flatMap((name) =>
      ['/run/hunter2.pem', ['', 'hunter2'], 'MIIhunter2'].map((text) => [
        { host: 'h', tls: { [name]: text } },
        new RegExp(
          `wrong tls\\.${name} \\(.* no PEM, such as a path\\): .*: readFileSync\\(path\\)`,
        ),
      ]),
    ),
    [new Redis({ db: NaN, lazyConnect: true }), /a client with a wrong db \(NaN\)/],
    [new Redis({ host: '', lazyConnect: true }), /a client with a wrong host \(empty\)/],
    [new Redis('redis://h/abc', { lazyConnect: true }), /a client with a wrong db/],
  ] as [unknown, RegExp][])('%p', (input, message) => {
    let thrown: unknown;
    try {
      new ConnectionSource(input as string);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(RedlockConfigError);
    expect((thrown as Error).message).toMatch(message);
    expect(JSON.stringify([thrown, (thrown as Error).message])).not.toContain('hunter2');
  });
});

describe('the name of an option of ioredis', () => {
  it.each([
    'rediss://h?ssl=true&secure=1',
    'h:1?db=2',
    'redis://h?tls=true&password=p&db=2&family=6',
    'redis://h?socket_timeout=5&ssl_cert_reqs=none&pool_size=10&client_name=a&timeout=3&protocol=3',
    'redis://?host=h&port=1',
    'redis://h?label=a&region=b&=c&',
    'redis://h?commandTimout=5',
  ])('may be of another client that reads the same URL: %s', (url) => {
    expect(() => new ConnectionSource(url)).not.toThrow();
  });

  it('may be any that its types or its defaults have', () => {
    const folder = 'node_modules/ioredis/built';
    const types = ['redis/RedisOptions', 'utils/Commander', 'connectors/StandaloneConnector'];
    const texts = [...types, 'connectors/SentinelConnector/index'].map((type) =>
      readFileSync(`${folder}/${type}.d.ts`, 'utf8'),
    );
    const typed = [...texts.join('').matchAll(/^ {4}(\w+)\?:/gm)].map(([, name]) => name!);
    const names = [...typed, 'host', 'port', 'family', ...Object.keys(new Redis(LAZY).options)];
    expect(typed.length).toBeGreaterThan(50);
    // The first two must have a value; the others are of the replicas that Sentinels know.
    const others = ['host', 'path', 'flags', 'prio'];
    for (const name of names.filter((each) => !others.includes(each)))
      for (const place of [{}, { host: 'h' }, { path: '/run/redis.sock' }])
        expect(() => new ConnectionSource({ ...place, [name]: undefined })).not.toThrow();
    expect(() => new ConnectionSource({ ...new Redis(LAZY).options })).not.toThrow();
  });

  const FOREIGN =
    'hostname server ip url redisUrl redis_url REDIS_URL dsn href urls uris unixSocket nodes client instance';

  it.each([...FOREIGN.split(' '), 'socketPath', 'clusterNodes', 'clientOptions', 'label'])(
    'is not %s, for one, when nothing says where the server is',
    (name) => {
      for (const more of [{}, { port: undefined }, { port: 1 }, { password: 'hunter2', db: 3 }]) {
        const make = () => new ConnectionSource({ ...more, [name]: 'hunter2' }, 'nodes[1]');
        expect(make).toThrow(RedlockConfigError);
        expect(make).toThrow(
          `Option 'nodes[1]' can't be options with '${name}' and without a host: each is a URL`,
        );
        expect(make).not.toThrow('hunter2');
      }
      const tls = { host: 'h' };
      for (const more of [{ host: 'h' }, { path: '/r.sock' }, { tls, host: '' }])
        expect(() => new ConnectionSource({ ...more, [name]: 'hunter2' })).not.toThrow();
    },
  );

  it('is not shown when it may be a secret: only names are, and few', () => {
    const secret = { 'redis://ana:hunter2@h': 6379 };
    expect(() => new ConnectionSource(secret as object)).toThrow('options without a host: each is');
    const spread = Object.fromEntries(Object.entries('redis://ana:hunter2@h'));
    expect(() => new ConnectionSource(spread)).toThrow("options with '0', '1', '2' and without");
  });

  it.each(['label', 'region', 'tags', 'note', 'time'])('may be one of its owner: %s', (name) => {
    expect(() => new ConnectionSource({ host: 'h', [name]: 1 })).not.toThrow();
  });

  const LAZY = { lazyConnect: true };
});

it('certificates may be PEM, bytes, several, or none', () => {
  const pem = '-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----';
  for (const ca of [pem, [pem, Buffer.from(pem)], Buffer.from(pem), '', undefined])
    expect(() => new ConnectionSource({ host: 'h', tls: { ca, key: [{ pem }] } })).not.toThrow();
});

describe('messages', () => {
  it('lose the password and what is too long', () => {
    const source = new ConnectionSource('redis://:p%40ss@h');
    expect(source.conceal("ERR unknown command 'AUTH' beginning with: 'p@ss'")).not.toContain(
      'p@ss',
    );
    expect(source.conceal('x'.repeat(10_000)).length).toBeLessThan(600);
    expect(new ConnectionSource('redis://h').conceal('unchanged')).toBe('unchanged');
  });

  it('have no line breaks', () => {
    const source = new ConnectionSource('redis://:p%0As@h');
    expect(source.conceal('one\n  two p\ns\r\n')).toBe('one two ***');
  });

  it.each([
    'WRONGPASS invalid username-password pair or user is disabled.',
    'ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?',
  ])('are what Redis says, also where the password is a word of it: %s', (said) => {
    const source = new ConnectionSource('redis://:password@h');
    expect(source.conceal(said)).toBe(said);
    expect(source.conceal(`${said} password`)).not.toContain('password');
  });
});
