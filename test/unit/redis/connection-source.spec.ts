import { readFileSync } from 'node:fs';
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
    [new Redis('redis://:hunter2@h:2', { lazyConnect: true }), 'h:2'],
  ])('of %p is %s, without credentials', (input, address) => {
    expect(new ConnectionSource(input).address).toBe(address);
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
    ['redis://a:hunter2@h:port', /malformed URL/],
    ['redis://a:hunter2%ZZ@h', /malformed URL/],
    [null, /each is a URL/],
    [7, /each is a URL/],
    [[], /each is a URL/],
    [{ sentinels: [{ host: 'h', port: 1 }], name: 'm', password: 'hunter2' }, /Sentinel/],
    [new Cluster([{ host: 'h', port: 1 }], { lazyConnect: true }), /independent masters/],
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
    ['commandTimout', 'commandTimeout'],
    ['pasword', 'password'],
    ['usernmae', 'username'],
    ['tsl', 'tls'],
    ['prot', 'port'],
    ['DB', 'db'],
    ['keyprefix', 'keyPrefix'],
    ['hostname', 'host'],
    ['user', 'username'],
    ['passphrase', 'password'],
    ['database', 'db'],
  ])('is not %s: the one that was meant, %s, is named, and the value is not', (name, meant) => {
    const make = () => new ConnectionSource({ host: 'h', [name]: 'hunter2' });
    expect(make).toThrow(RedlockConfigError);
    expect(make).toThrow(`'nodes' can't be options with '${name}' (did you mean '${meant}'?)`);
    expect(make).not.toThrow('hunter2');
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
    for (const name of names)
      expect(() => new ConnectionSource({ [name]: undefined })).not.toThrow();
    expect(() => new ConnectionSource({ ...new Redis(LAZY).options })).not.toThrow();
  });

  it.each(['label', 'region', 'tags', 'note', 'time'])('may be one of its owner: %s', (name) => {
    expect(() => new ConnectionSource({ host: 'h', [name]: 1 })).not.toThrow();
  });

  const LAZY = { lazyConnect: true };
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
});
