import 'reflect-metadata';
import { inspect } from 'node:util';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService, RedlockConfigError, RedlockModule } from '../../lib/index.ts';
import type { Duration, NodeInput } from '../../lib/index.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';
import { makeCertificates, type Certificates } from './certificates.ts';

let certificates: Certificates;
let servers: RedisServer[];
const open: { close(): Promise<void> }[] = [];

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
afterEach(async () => {
  for (const module of open.splice(0)) await module.close().catch(() => undefined);
});
afterAll(() => Promise.all((servers ?? []).map((server) => server.stop())));

async function start(nodes: NodeInput[], startupTimeout = '20s' as Duration): Promise<LockService> {
  const module = await Test.createTestingModule({
    imports: [RedlockModule.forRoot({ nodes, restartGuard: false, startupTimeout })],
  })
    .setLogger({ log() {}, warn() {}, error() {} })
    .compile();
  open.push(module);
  await module.init();
  return module.get(LockService);
}

const nodesWith = (tls: object): NodeInput[] =>
  servers.map(({ host, port }) => ({ host, port, tls }));

describe('servers that demand client certificates', () => {
  it('serve locks, waits and releases to clients that have them', async () => {
    const { ca, client } = certificates;
    const first = await start(nodesWith({ ca, ...client }));
    const second = await start(nodesWith({ ca, ...client }));
    const held = await first.acquire('a');
    const waiting = second.acquire('a', { wait: '20s' });
    await expect(second.tryAcquire('a')).resolves.toBeNull();
    await held.release();
    const next = await waiting;
    expect(next.token.value).toBeGreaterThan(held.token.value);
    await next.release();
  });

  it.each([
    ['without a certificate', ({ ca }: Certificates) => ({ ca })],
    ['with one of a foreign authority', ({ ca, stranger }: Certificates) => ({ ca, ...stranger })],
    ['that does not know their authority', ({ client }: Certificates) => ({ ...client })],
    [
      'that expects another name',
      ({ ca, client }: Certificates) => ({ ca, ...client, servername: 'redis.example' }),
    ],
  ])('give no lock to a client %s, and its key is in no error', async (_, tlsOf) => {
    const tls: { readonly ca?: string; readonly key?: string } = tlsOf(certificates);
    const refused = await start(nodesWith(tls), '500ms').catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(RedlockConfigError);
    const shown = inspect(refused, { depth: Infinity, showHidden: true });
    expect(shown).toMatch(/0 of 3 nodes answer/);
    expect(shown).not.toContain('PRIVATE KEY');
    expect(shown).not.toContain((tls.key ?? 'no key').split('\n')[1] ?? 'no key');
  });

  it('are not reached without TLS', async () => {
    const plain = servers.map(({ host, port }) => `redis://${host}:${port}`);
    await expect(start(plain, '500ms')).rejects.toThrow(RedlockConfigError);
  });
});
