import 'reflect-metadata';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { Redlock } from '../../lib/core/redlock.ts';
import { QuorumUnavailableError } from '../../lib/index.ts';
import type { LockService, NodeInput, RedlockModuleOptions } from '../../lib/index.ts';
import { clientOf } from '../support/clients.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';
import { eventually } from '../support/eventually.ts';
import { bulk, ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';
import { redisNodes, useClosing } from '../support/use-redlocks.ts';
import { makeCertificates, type Certificates } from './certificates.ts';
import { useLockModules } from './use-lock-modules.ts';

let certificates: Certificates;
let servers: RedisServer[];
const startModule = useLockModules();
const closing = useClosing();

beforeAll(async () => {
  certificates = await makeCertificates();
  const { ca, server } = certificates;
  servers = await startRedisServers(3, { tls: { ...server, ca, clientCertificates: true } }).catch(
    (cause: unknown) => {
      throw new Error(
        'This redis-server does not start with TLS. Debian and Ubuntu build theirs with it (apt-get install redis-server), and so do the images redis:7 and valkey/valkey:8; a build of your own needs make BUILD_TLS=yes.',
        { cause },
      );
    },
  );
});
afterAll(() => Promise.all((servers ?? []).map((server) => server.stop())));

/** Leases and waits that outlast a test, as does the time that a server has for its answer. */
const LASTING = { ttl: '1h', wait: '1h', nodeTimeout: '10m' } as const;

async function start(
  nodes: NodeInput[],
  options: Pick<RedlockModuleOptions, 'startupTimeout' | 'credentials'> = {},
): Promise<LockService> {
  const given = { startupTimeout: '1m', restartGuard: false, ...LASTING, ...options } as const;
  return (await startModule({ nodes, ...given })).locks;
}

/** A port that leads to the first server those that name `localhost` in their first bytes, as routers of TLS do; others are cut. */
async function openRouter(): Promise<number> {
  const sockets = new Set<Socket>();
  const listener = createServer((client) => {
    sockets.add(client.on('error', () => undefined));
    client.once('data', (hello) => {
      if (!hello.includes('localhost')) return client.destroy();
      const server = connect(servers[0]!.port, servers[0]!.host).on('error', () => undefined);
      sockets.add(server);
      server.write(hello);
      client.pipe(server).pipe(client);
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, resolve));
  closing({
    close: async () => {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  });
  return (listener.address() as AddressInfo).port;
}

const nodesWith = (tls: object): NodeInput[] =>
  servers.map(({ host, port }) => clientOf({ host, port, tls }));

type Tls = { readonly ca?: string; readonly key?: string; readonly servername?: string };
const STRANGERS: readonly (readonly [string, (all: Certificates) => Tls])[] = [
  ['without a certificate', ({ ca }) => ({ ca })],
  ['with one of a foreign authority', ({ ca, stranger }) => ({ ca, ...stranger })],
  ['that does not know their authority', ({ client }) => client],
  [
    'that expects another name',
    ({ ca, client }) => ({ ca, ...client, servername: 'redis.example' }),
  ],
];

/** Starts that are refused, made at once, as each takes its whole timeout. */
const refusals = new Map<string, Promise<unknown>>();
beforeAll(async () => {
  for (const [name, tlsOf] of STRANGERS) {
    const started = start(nodesWith(tlsOf(certificates)), { startupTimeout: '500ms' });
    refusals.set(
      name,
      started.catch((error: unknown) => error),
    );
  }
  await Promise.all(refusals.values());
});

describe('servers that demand client certificates', () => {
  it('servers that demand client certificates serve locks, waits and releases to clients that have them, also by credentials()', async () => {
    const { ca, client } = certificates;
    const first = await start(nodesWith({ ca, ...client }));
    const second = await start(nodesWith({ ca }), { credentials: () => ({ tls: client }) });
    const held = await first.acquire('a');
    const waiting = second.acquire('a');
    await expect(second.tryAcquire('a')).resolves.toBeNull();
    await held.release();
    const next = await waiting;
    expect(next.token.value).toBeGreaterThan(held.token.value);
    await next.release();
  });

  it.each(STRANGERS)(
    'servers that demand client certificates give no lock to a client %s, and its key is in no error',
    async (name, tlsOf) => {
      const { key = 'no key' } = tlsOf(certificates);
      const refused = await refusals.get(name);
      expect(refused).toBeInstanceOf(QuorumUnavailableError);
      const shown = inspect(refused, { depth: Infinity, showHidden: true });
      expect(refused).toMatchObject({ causes: { length: 3 } });
      expect(shown).not.toContain('PRIVATE KEY');
      expect(shown).not.toContain(key.split('\n')[1] ?? 'no key');
    },
  );

  it('a server behind a router that asks for its name is reached by that name, however the node is given', async () => {
    const { ca, client } = certificates;
    const port = await openRouter();
    const tls = { ca, ...client };
    const found = `*2\r\n${bulk('localhost')}${bulk(String(port))}`;
    const sentinel = await ScriptedRedis.start((command) => {
      if (command[0] !== 'sentinel') return shakeHands(command);
      return command[1] === 'sentinels' ? '*0\r\n' : found;
    });
    closing({ close: () => sentinel.stop() });
    const sentinels = [{ host: '127.0.0.1', port: Number(new URL(sentinel.url).port) }];
    const forms: [NodeInput, Pick<RedlockModuleOptions, 'credentials'>?][] = [
      [clientOf(`rediss://localhost:${port}`), { credentials: () => ({ tls }) }],
      [clientOf(`redis://localhost:${port}`), { credentials: () => ({ tls }) }],
      [clientOf({ host: 'localhost', port, tls })],
      [new Redis({ host: 'localhost', port, tls, lazyConnect: true })],
      [{ sentinels, name: 'mymaster', tls }],
    ];
    for (const [node, options] of forms) {
      const locks = await start([node], options);
      await expect(locks.withLock('a', () => 'locked')).resolves.toBe('locked');
    }
  });

  it('a router that knows no such name is not reached, and the error asks for the name', async () => {
    const redlock = closing(
      new Redlock(redisNodes([{ url: `rediss://127.0.0.1:${await openRouter()}` }])),
    );
    redlock.open();
    await eventually(() =>
      expect(redlock.acquire('a', { wait: 0 })).rejects.toMatchObject({
        causes: [{ message: expect.stringContaining('servername') }],
      }),
    );
  });

  it('servers that speak TLS are not reached without it, and the error asks for it', async () => {
    const plain = servers.map(({ host, port }) => ({ url: `redis://${host}:${port}` }));
    const redlock = closing(new Redlock(redisNodes(plain)));
    redlock.open();
    const message = expect.stringMatching(/TLS.*rediss:\/\//);
    const refused = { causes: plain.map(() => ({ message })) };
    await eventually(() =>
      expect(redlock.acquire('a', { wait: 0 })).rejects.toMatchObject(refused),
    );
  });
});
