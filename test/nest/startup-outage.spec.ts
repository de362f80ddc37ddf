import 'reflect-metadata';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  LockService,
  QuorumUnavailableError,
  RedlockModule,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { LATE_NODE_MS } from '../../lib/nest/host/startup.ts';
import { MISCONF, NOREPLICAS, OOM, READONLY } from '../campaign/conditions.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';
import { Recorder } from './support/recorder.ts';

describe('a start without a quorum', () => {
  const servers = useRedisServers(3, { own: true });
  afterEach(closeAll);

  async function start(options: RedlockModuleOptions, logger = silentLogger): Promise<LockService> {
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot({ restartGuard: false, ...options })],
    })
      .setLogger(logger)
      .compile();
    closeLater(await module.init());
    return module.get(LockService);
  }

  it('goes on until the servers come', async () => {
    await Promise.all(servers.map((server) => server.kill()));
    const starting = start({ nodes: servers.map(({ url }) => url) });
    starting.catch(() => undefined);
    setTimeout(() => void Promise.all(servers.map((server) => server.restart())), 1_500);
    await expect((await starting).withLock('a', () => 'locked')).resolves.toBe('locked');
  });

  /** With a start that is over, well or not, its errors in the log. */
  async function errorsOf(options: RedlockModuleOptions): Promise<string[]> {
    const logger = new Recorder();
    await start(options, logger).catch(() => undefined);
    return logger.lines.filter((line) => line.startsWith('error'));
  }

  it('says in one error, long before it ends, what is wrong and what a test does', async () => {
    const nodes = ['redis://127.0.0.1:1', 'redis://localhost:2', servers[0]!.url];
    const errors = await errorsOf({ nodes, startupTimeout: 2_500 });
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatch(
      /^error No quorum at the start after \d+ ms: 2 of 3 nodes must vote\. 127\.0\.0\.1:1: no connection: .*ECONNREFUSED.*; localhost:2: no connection: .*ECONNREFUSED.*\. Check these servers\. The start waits 0\.5 s more\. /,
    );
    expect(errors[0]).toContain(
      '.overrideProvider(REDLOCK_NODES).useValue(createMemoryNodes(3)), with createMemoryNodes of nestjs-fenced-lock/testing.',
    );
  });

  async function refusal(
    node: string,
    options: Partial<RedlockModuleOptions> = {},
  ): Promise<string> {
    const refused = start({ nodes: [node], startupTimeout: 500, ...options });
    await expect(refused).rejects.toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
      quorum: 1,
      causes: [{ address: new URL(node).host, reason: 'unreachable', message: expect.any(String) }],
    });
    return refused.then(String, ({ message }: Error) => message);
  }

  it('is refused after its timeout where no quorum comes: the time for late nodes is for a start with one', async () => {
    const nodes = ['redis://127.0.0.1:1', 'redis://localhost:2', servers[0]!.url];
    const startupTimeout = 1_000;
    const error = await start({ nodes, startupTimeout }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    const { waitedMs } = error as QuorumUnavailableError;
    expect(waitedMs).toBeGreaterThan(0.9 * startupTimeout);
    expect(waitedMs).toBeLessThan(startupTimeout + LATE_NODE_MS);
  });

  it('with strict says that all nodes are wanted, where a quorum is there', async () => {
    const nodes = ['redis://127.0.0.1:1', servers[0]!.url, servers[1]!.url];
    const refused = start({ nodes, strict: true, startupTimeout: 500 });
    await expect(refused).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE', quorum: 3 });
    await expect(refused).rejects.toThrow(
      /: 3 of 3 nodes must vote\. 127\.0\.0\.1:1: no connection: .*ECONNREFUSED.*: 'strict' needs all of them\. /,
    );
    const all = ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', servers[0]!.url];
    const options = { nodes: all, strict: true, startupTimeout: 2_500 };
    expect(await errorsOf(options)).toEqual([
      expect.stringMatching(/1:1: .*1:2: .*'strict' needs all of them/),
    ]);
  });

  it('says that nothing listens, and how long it waited', async () => {
    await expect(refusal('redis://localhost:1')).resolves.toMatch(
      /^No quorum at the start after \d+ ms: 1 of 1 nodes must vote\. .*ECONNREFUSED.*'startupTimeout' \(0\.5 s\)\.$/,
    );
  });

  it.each(
    [OOM, NOREPLICAS, MISCONF].flatMap((condition) =>
      [false, true].map((isKnown) => [condition.name, isKnown, condition] as const),
    ),
  )(
    'is refused where too few take writes: %s, joined before: %s',
    async (name, isKnown, condition) => {
      const nodes = servers.map(({ url }) => url);
      const options = { nodes, keyPrefix: `${name}:${isKnown}:`, startupTimeout: 700 };
      if (isKnown) await start(options);
      const full = [await condition.begin(servers[0]!), await condition.begin(servers[1]!)];
      try {
        const module = await Test.createTestingModule({
          imports: [RedlockModule.forRoot({ restartGuard: false, ...options })],
        })
          .setLogger(silentLogger)
          .compile();
        const locks = module.get(LockService);
        const starting = module.init().then(closeLater, (error: unknown) => error);
        const isReady = await locks.ready(400);
        const error = await starting;
        // A server that knows its marker is joined: held locks are renewed there.
        expect(isReady).toBe(isKnown);
        expect(error).toBeInstanceOf(QuorumUnavailableError);
        expect((error as QuorumUnavailableError).causes).toHaveLength(2);
        expect(String(error)).toMatch(/2 of 3 nodes must vote\..*takes no writes/);
        await full.pop()!();
        const log = new Recorder();
        const started = await start(options, log);
        await expect(started.withLock('a', () => 'locked')).resolves.toBe('locked');
        expect(log.lines.join('\n')).toMatch(/warn.*refuses all writes now/s);
      } finally {
        for (const end of full) await end();
      }
    },
  );

  it.each([
    ['a replica', undefined],
    ['a Sentinel', { sentinel: true }],
    ['in cluster mode', { args: ['--cluster-enabled', 'yes'] }],
  ])(
    'is refused at once where a server is %s, also beside one that is away',
    async (what, server) => {
      const [unsafe] = await startRedisServers(1, server ?? { own: true });
      try {
        if (server === undefined) await READONLY.begin(unsafe!);
        const nodes = [unsafe!.url, 'redis://127.0.0.1:1', 'redis://127.0.0.1:2'];
        const startupTimeout = 20_000;
        const startedMs = performance.now();
        const refused = start({ nodes, startupTimeout });
        await expect(refused).rejects.toMatchObject({ code: 'REDLOCK_CONFIG' });
        await expect(refused).rejects.toThrow(new RegExp(what));
        expect(performance.now() - startedMs).toBeLessThan(startupTimeout / 2);
      } finally {
        await unsafe!.stop();
      }
    },
    30_000,
  );
});
