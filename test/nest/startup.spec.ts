import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { LockService, RedlockModule, type RedlockModuleOptions } from '../../lib/index.ts';
import { LATE_NODE_MS } from '../../lib/locks/startup.ts';
import { createMemoryNodes, MemoryLockServer } from '../../lib/testing/index.ts';
import { closeAll, closeLater, passUntil, stopTime } from './support/applications.ts';
import { Recorder } from './support/recorder.ts';

afterEach(closeAll);
afterEach(() => Logger.overrideLogger(false));

/** Compiled, and with an HTTP server, which can be closed before it has started. */
async function compile(options: RedlockModuleOptions) {
  const recorder = new Recorder();
  const redlock = RedlockModule.forRoot(options);
  const module = await Test.createTestingModule({ imports: [redlock] })
    .setLogger(recorder)
    .compile();
  const app = closeLater(module.createNestApplication());
  return { app, recorder, locks: app.get(LockService) };
}

async function start(options: RedlockModuleOptions) {
  const compiled = await compile(options);
  await compiled.app.init();
  return compiled;
}

/** A start that goes on while the test does something. */
async function begin(options: RedlockModuleOptions) {
  const compiled = await compile(options);
  const starting = compiled.app.init();
  starting.catch(() => undefined);
  return { ...compiled, starting };
}

type Facts = NonNullable<ConstructorParameters<typeof MemoryLockServer>[0]>['facts'];
const serversWith = (...facts: Facts[]) =>
  createMemoryNodes(facts.map((each) => new MemoryLockServer({ facts: each })));

const lockAtOnce = (locks: LockService) => locks.withLock('a', () => 'locked', { wait: 0 });
const hasAddress = (node: { readonly address: string }) =>
  expect.objectContaining({ address: node.address });

const OOM = { refusesWrites: "OOM command not allowed when used memory > 'maxmemory'." };
const NOWHERE = ['redis://127.0.0.1:1', 'redis://localhost:2', 'redis://127.0.0.1:3'];

describe('a start', () => {
  it('is quiet and says how many nodes there are when all is well', async () => {
    const { app, recorder } = await start({ nodes: createMemoryNodes(3) });
    await app.close();
    expect(recorder.lines).toContain('log Locks over 3 servers, quorum 2.');
    expect(recorder.warnings).toBe('');
  });

  it('warns of what is risky, once, with the fix', async () => {
    const nodes = serversWith({ maxmemoryPolicy: 'allkeys-lru' }, { appendOnly: false }, {});
    const { recorder } = await start({ nodes, restartGuard: false });
    expect(recorder.warnings.match(/2 warnings/g)).toHaveLength(1);
    expect(recorder.warnings).toContain('set maxmemory-policy noeviction');
    expect(recorder.warnings).toContain('restartGuard: true');
  });

  it.each<[string, Facts[], RegExp]>([
    [
      'one has two names',
      [{ runId: '1' }, { runId: '2' }, { runId: '1' }],
      /same server as memory/,
    ],
    ['one is a replica', [{ role: 'slave' }, {}, {}], /is a replica/],
    ['one is a Sentinel', [{ role: 'sentinel' }, {}, {}], /Sentinel/],
    ['one is in cluster mode, one is away', [{ clusterEnabled: true }, {}, {}], /in cluster mode/],
  ])('is refused at once where servers are unsafe: %s', async (what, facts, message) => {
    const nodes = serversWith(...facts);
    if (what.includes('away')) nodes[1]!.server.kill();
    const boot = start({ nodes, startupTimeout: '1h' });
    await expect(boot).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'nodes' });
    await expect(boot).rejects.toThrow(message);
  });

  it('goes on without a minority of nodes, and says which, and when they come', async () => {
    const nodes = createMemoryNodes(3);
    const [, missing] = nodes;
    missing!.server.kill();
    const { recorder, locks } = await start({ nodes, restartGuard: false });
    expect(recorder.warnings).toContain(missing!.address);
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
    await recorder.said(`warn Server ${missing!.address} gives no locks`);
    missing!.restart({ keepData: true });
    await recorder.said(`log Server ${missing!.address} joined.`);
  });

  it('waits for nodes that come late, with strict for all of them', async () => {
    const nodes = createMemoryNodes(3);
    for (const { server } of nodes) server.kill();
    const { starting, locks } = await begin({ nodes, strict: true, restartGuard: false });
    for (const { server } of nodes) {
      await sleep(20);
      server.restart({ keepData: true });
    }
    await starting;
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
  });

  it('waits on where a quorum was there, and left again before the late nodes had their time', async () => {
    const nodes = createMemoryNodes(3);
    nodes[0]!.server.kill();
    const { starting, locks } = await begin({ nodes, restartGuard: false });
    await sleep(LATE_NODE_MS / 2);
    for (const { server } of nodes) server.kill();
    await sleep(LATE_NODE_MS + 200);
    for (const { server } of nodes.slice(1)) server.restart({ keepData: true });
    await starting;
    // Where this process was stopped, the start was over before the quorum left.
    const locked = locks.withLock('a', () => 'locked', { wait: '1m' });
    await expect(locked).resolves.toBe('locked');
  });

  it.each<[string, (node: MemoryLockServer) => void, RedlockModuleOptions['strict'], number]>([
    ['are dead', (server) => server.kill(), false, 2],
    ['are frozen', (server) => server.freeze(), false, 2],
    ['are dead, and all are wanted', (server) => server.kill(), true, 1],
  ])('is refused, not hanging, where too many nodes %s', async (_, fault, strict, count) => {
    const nodes = createMemoryNodes(3);
    const faulty = nodes.slice(0, count);
    for (const { server } of faulty) fault(server);
    // A process that hardly runs must have heard the others by then.
    const boot = start({ nodes, strict, startupTimeout: 500 });
    const quorum = strict ? 3 : 2;
    const causes = faulty.map(hasAddress);
    await expect(boot).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE', quorum, causes });
    await expect(boot).rejects.toThrow(
      strict ? "'strict' needs all of them" : "'startupTimeout' (0.5 s)",
    );
    // A node that is still open refuses to be opened again.
    for (const { server } of nodes) server.restart({ keepData: true });
    const { locks } = await start({ nodes, restartGuard: false });
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
  });

  it('is refused where too few servers take writes, and warns of one that takes none', async () => {
    const boot = start({ nodes: serversWith(OOM, OOM, {}), startupTimeout: 500 });
    await expect(boot).rejects.toThrow(/2 of 3 servers must answer\..*OOM/);
    await expect(boot).rejects.toMatchObject({ causes: { length: 2 } });
    const { recorder } = await start({ nodes: serversWith(OOM, {}, {}) });
    expect(recorder.warnings).toContain('rejects all writes now');
  });

  it('without servers is refused after its timeout, and says in one error before what is wrong and what a test does', async () => {
    const { starting, recorder } = await begin({ nodes: NOWHERE, startupTimeout: 2_200 });
    await expect(starting).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    const { waitedMs } = (await starting.catch((error: unknown) => error)) as { waitedMs: number };
    expect(waitedMs).toBeGreaterThan(2_000);
    const errors = recorder.lines.filter((line) => line.startsWith('error'));
    expect(errors).toEqual([
      expect.stringMatching(
        /No quorum at the start after \d+ ms: 2 of 3 servers must answer\. 127\.0\.0\.1:1: no connection: .*ECONNREFUSED.*createMemoryNodes\(3\)/,
      ),
    ]);
  });

  it('ends under fake timers, and its locks can be had', async () => {
    jest.useFakeTimers();
    const { locks } = await start({ nodes: createMemoryNodes(3) });
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
  });

  it('that waits says in time that fake timers keep it from ending, and ends when they run', async () => {
    jest.useFakeTimers();
    const { starting, recorder } = await begin({ nodes: createMemoryNodes(3, { fresh: true }) });
    await recorder.said('fake timers');
    const errors = recorder.lines.filter((line) => line.startsWith('error'));
    expect(errors).toEqual([expect.stringMatching(/after .*app\.init\(\)/)]);
    await passUntil(starting, 10);
  });

  it.each<[string, (server: MemoryLockServer) => void]>([
    ['nodes that are dead', (server) => server.kill()],
    ['nodes that are frozen', (server) => server.freeze()],
    ['votes', () => undefined],
  ])('ends at once when it is closed while it waits for %s', async (what, fault) => {
    const nodes = createMemoryNodes(3, { fresh: true });
    for (const { server } of nodes) fault(server);
    const options = { nodes, ttl: '1m', startupTimeout: '10m' } as const;
    const { app, starting, recorder } = await begin(options);
    if (what === 'votes') await recorder.said(WAITING);
    else await sleep(20);
    await app.close();
    await expect(starting).rejects.toMatchObject({ code: 'REDLOCK_CLOSED', keys: [] });
  });
});

describe('after a start', () => {
  it.each([
    [false, 1],
    [true, 0],
  ])(
    'an application is told once that nothing would release locks at SIGTERM, unless something listens (%p)',
    async (listens, count) => {
      stopTime();
      const { app, recorder } = await passUntil(start({ nodes: createMemoryNodes(3) }), 1);
      if (listens) app.enableShutdownHooks(['SIGTERM']);
      await jest.advanceTimersByTimeAsync(10_000);
      const said = recorder.lines.filter((line) => line.includes('app.enableShutdownHooks()'));
      expect(said).toHaveLength(count);
    },
  );

  it('events are logged: a node that leaves and comes back, and a lost lock', async () => {
    const nodes = createMemoryNodes(3);
    const { recorder, locks } = await start({ nodes, restartGuard: false });
    stopTime();
    const { signal } = await locks.acquire('seat:1');
    for (const node of nodes) node.server.kill();
    await jest.advanceTimersByTimeAsync(10_000);
    expect(signal.aborted).toBe(true);
    for (const node of nodes) node.server.restart({ keepData: false });
    await jest.advanceTimersByTimeAsync(100);
    expect(recorder.lines.filter((line) => line.includes('joined'))).toHaveLength(6);
    expect(recorder.warnings).toContain(`Server ${nodes[0]!.address} left`);
    expect(recorder.warnings).toMatch(/Lock "seat:1" \(token \d+\) was lost/);
  });

  // Jest fails a test in which a promise rejects without a handler.
  it.each([
    ['throws', fail],
    ['rejects', (async () => fail()) as () => never],
  ])('a listener that %s changes nothing, and its first failure is logged', async (_, onEvent) => {
    const { app, recorder, locks } = await start({ nodes: createMemoryNodes(1), onEvent });
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
    await app.close();
    await new Promise((resolve) => setImmediate(resolve));
    const failures = recorder.lines.filter((line) => line.includes('no metrics'));
    expect(failures).toEqual([expect.stringMatching(/^error onEvent failed/)]);
  });

  function fail(): never {
    throw new Error('no metrics');
  }
});

const WAITING = 'until the servers give locks';

describe('a start over servers that may not vote yet', () => {
  beforeEach(stopTime);
  const fresh = () => createMemoryNodes(3, { fresh: true });
  const quarantined = {
    code: 'QUORUM_UNAVAILABLE',
    causes: expect.arrayContaining([expect.objectContaining({ reason: 'quarantined' })]),
  };
  const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);

  /** A start that has begun to wait for the restart guard. */
  async function beginToWait(options: RedlockModuleOptions) {
    const begun = await begin(options);
    await passUntil(begun.recorder.said(WAITING), 1);
    return begun;
  }

  it('waits for their restart guard, and says at once why and what ends it in development', async () => {
    const { starting, recorder, locks } = await beginToWait({ nodes: fresh(), ttl: '5s' });
    expect(recorder.lines.join('\n')).toMatch(
      /log Waiting [\d.]+ s until .*restart guard.*waitForVotes: false .*restartGuard: false/,
    );
    await pass(1_000);
    expect(recorder.lines.join('\n')).not.toContain('Locks over');
    await pass(4_000);
    await starting;
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
    expect(recorder.warnings).toBe('');
  });

  it.each<[string, Partial<RedlockModuleOptions>]>([
    ['with waitForVotes: false', { waitForVotes: false }],
    ['where the guard is longer than startupTimeout, of which it warns', { startupTimeout: '5s' }],
  ])('starts at once, and is not ready, %s', async (_, options) => {
    const { recorder, locks } = await passUntil(
      start({ nodes: fresh(), ttl: '30s', ...options }),
      1,
    );
    expect(recorder.lines.join('\n')).not.toContain('Waiting');
    const warning = options.startupTimeout
      ? /no locks for [.\d]+ s.*'startupTimeout' of 30 s/
      : /^$/;
    expect(recorder.warnings).toMatch(warning);
    expect(await locks.ready(0)).toBe(false);
    await expect(lockAtOnce(locks)).rejects.toMatchObject(quarantined);
  });

  it('does not wait where the guard is off, or over', async () => {
    const options = { nodes: fresh(), ttl: '5s' } as const;
    const { starting } = await beginToWait(options);
    await pass(5_000);
    await starting;
    for (const each of [options, { nodes: fresh(), restartGuard: false }]) {
      const { recorder, locks } = await passUntil(start(each), 1);
      expect(recorder.lines.join('\n')).not.toContain(WAITING);
      await expect(lockAtOnce(locks)).resolves.toBe('locked');
    }
  });

  it('waits again for servers that restart meanwhile', async () => {
    const nodes = fresh();
    const { starting, locks } = await beginToWait({ nodes, ttl: '5s' });
    await pass(1_000);
    for (const { server } of nodes.slice(1)) server.restart({ keepData: false });
    const restartedMs = performance.now();
    await passUntil(starting, 10);
    expect(performance.now() - restartedMs).toBeGreaterThanOrEqual(5_000);
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
  });

  it('is refused when they leave meanwhile and do not come back', async () => {
    const nodes = fresh();
    const { starting } = await beginToWait({ nodes, ttl: '1s', startupTimeout: '1s' });
    for (const { server } of nodes.slice(1)) server.kill();
    const causes = nodes.slice(1).map(hasAddress);
    const refused = passUntil(starting, 50);
    await expect(refused).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE', causes });
  });

  it('is not refused for the time in which the event loop was blocked', async () => {
    const nodes = fresh();
    const options = { nodes, ttl: '1s', startupTimeout: '1s' } as const;
    const { starting, locks } = await beginToWait(options);
    for (const { server } of nodes) server.kill();
    // Time that passes all at once: it can't look meanwhile.
    jest.advanceTimersByTime(3_000);
    for (const { server } of nodes) server.restart({ keepData: false });
    await passUntil(starting, 10);
    await expect(lockAtOnce(locks)).resolves.toBe('locked');
  });
});
