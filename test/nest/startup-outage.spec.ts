import 'reflect-metadata';
import { createServer } from 'node:http';
import { connect, createServer as createTcpServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { Test } from '@nestjs/testing';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  LockService,
  QuorumUnavailableError,
  RedlockModule,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { LATE_NODE_MS } from '../../lib/nest/host/startup.ts';
import { errorConditions } from '../campaign/servers/error-conditions.ts';
import { eventually } from '../support/eventually.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';
import { Recorder } from './support/recorder.ts';

describe('a start without a quorum', () => {
  const servers = useRedisServers(3, { own: true });
  const guarded = useRedisServers(1, { requirepass: 'secret' });
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

  it('goes on for the time in which the event loop was blocked', async () => {
    await Promise.all(servers.map((server) => server.kill()));
    const starting = start({ nodes: servers.map(({ url }) => url), startupTimeout: '4s' });
    starting.catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const blockedUntilMs = performance.now() + 4_500;
    while (performance.now() < blockedUntilMs);
    setTimeout(() => void Promise.all(servers.map((server) => server.restart())), 1_800);
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

  it('says nothing of it where the servers come soon, or the start is to end soon', async () => {
    await Promise.all(servers.map((server) => server.kill()));
    const nodes = servers.map(({ url }) => url);
    expect(await errorsOf({ nodes, startupTimeout: 500 })).toEqual([]);
    setTimeout(() => void Promise.all(servers.map((server) => server.restart())), 200);
    expect(await errorsOf({ nodes })).toEqual([]);
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

  it('says of a server that takes the connection and is silent just that', async () => {
    const silent = createTcpServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => silent.once('listening', resolve));
    const sockets: Socket[] = [];
    silent.on('connection', (socket) => sockets.push(socket));
    const nodes = [`redis://127.0.0.1:${(silent.address() as AddressInfo).port}`];
    try {
      const [error] = await errorsOf({ nodes, startupTimeout: 2_500 });
      expect(error).toMatch(
        /no connection: the server accepted the connection but has not answered yet/,
      );
    } finally {
      for (const socket of sockets) socket.destroy();
      silent.close();
    }
  });

  it('says that nothing listens, and how long it waited', async () => {
    await expect(refusal('redis://localhost:1')).resolves.toMatch(
      /^No quorum at the start after \d+ ms: 1 of 1 nodes must vote\. .*ECONNREFUSED.*'startupTimeout' \(0\.5 s\)\.$/,
    );
  });

  it('says what it means that a server takes no writes, and not that a longer wait helps', async () => {
    const admin = new Redis(guarded[0]!.url);
    await admin.config('SET', 'min-replicas-to-write', '1');
    try {
      const message = await refusal(guarded[0]!.url, { keyPrefix: 'no-writes:' });
      expect(message).toMatch(
        /join failed: NOREPLICAS .* attach its replicas, or set min-replicas-to-write 0\. Check these servers\. /,
      );
    } finally {
      await admin.config('SET', 'min-replicas-to-write', '0');
      admin.disconnect();
    }
  });

  const REFUSING = errorConditions().filter(({ name }) => /^(OOM|NOREPLICAS|MISCONF)/.test(name));

  it.each(
    REFUSING.flatMap((condition) =>
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
        const replica = errorConditions().find(({ name }) => name.startsWith('READONLY'))!;
        if (server === undefined) await replica.begin(unsafe!);
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

  it.each(
    errorConditions()
      .filter(({ name }) => /^(OOM|READONLY|NOREPLICAS|MISCONF)/.test(name))
      .map((condition) => [condition.name, condition] as const),
  )(
    'has for a server that takes no writes the same remedy as the log has later: %s',
    async (name, condition) => {
      const nodes = [servers[0]!.url];
      const log = new Recorder();
      const locks = await start({ nodes, keyPrefix: `remedy ${name}:` }, log);
      const end = await condition.begin(servers[0]!);
      try {
        const said = () => log.lines.join('\n');
        await eventually(async () => {
          await expect(locks.acquire('a', { wait: 0 })).rejects.toThrow(/\. It .*: /);
          expect(said()).toMatch(/^warn Node .* does not vote: /m);
        });
        expect(said()).toMatch(/^error No quorum votes: .*\. It /m);
        expect(said()).not.toMatch(/user_script|[0-9a-f]{40}/);
        const [, remedy] = / does not vote: .*\. It (.*)$/m.exec(said())!;
        const refused = start({ nodes, keyPrefix: `remedy ${name}:`, startupTimeout: 500 });
        await expect(refused).rejects.toThrow(remedy);
      } finally {
        await end();
      }
    },
  );

  it('does not speak of TLS where a server that answered before takes connections and closes them', async () => {
    let isBroken = false;
    let shut = 0;
    const sockets: Socket[] = [];
    const path = createTcpServer((socket) => {
      sockets.push(socket.on('error', () => undefined));
      if (isBroken) {
        shut += 1;
        return void socket.destroy();
      }
      const onward = connect(servers[0]!.port, servers[0]!.host).on('error', () => undefined);
      sockets.push(onward);
      socket.pipe(onward).pipe(socket);
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => path.once('listening', resolve));
    try {
      const node = `redis://127.0.0.1:${(path.address() as AddressInfo).port}`;
      const locks = await start({ nodes: [node] });
      await locks.withLock('a', () => 'locked');
      isBroken = true;
      for (const socket of sockets) socket.destroy();
      await eventually(() => expect(shut).toBeGreaterThan(4));
      await eventually(async () => {
        const refused = locks.withLock('a', () => 'locked', { wait: 0 });
        await expect(refused).rejects.toThrow(/no connection: the connection was closed\./);
      });
    } finally {
      path.close();
    }
  });

  it('asks for TLS where a server takes the connection and does not answer to TLS', async () => {
    const node = guarded[0]!.url.replace('redis://', 'rediss://');
    const expected =
      /no connection: no answer to the TLS handshake: does the server speak TLS on this port\? Else write redis:\/\//;
    await expect(start({ nodes: [node], startupTimeout: 500 })).rejects.toThrow(expected);
    const [error] = await errorsOf({ nodes: [node], startupTimeout: 2_500 });
    expect(error).toMatch(expected);
  });

  it('says that something is no Redis where a web server listens', async () => {
    const web = createServer((_request, response) => response.end()).listen(0, '127.0.0.1');
    await new Promise((resolve) => web.once('listening', resolve));
    try {
      const message = await refusal(`redis://127.0.0.1:${(web.address() as AddressInfo).port}`);
      expect(message).toMatch(/Unknown RESP type|Protocol error/);
      expect(message).not.toMatch(/report this/);
    } finally {
      web.close();
    }
  });
});
