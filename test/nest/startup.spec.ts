import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  LockService,
  QuorumUnavailableError,
  RedlockConfigError,
  RedlockModule,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { createMemoryNodes, MemoryLockServer } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, closeLater } from './support/applications.ts';
import { Recorder } from './support/recorder.ts';

describe('start of the application', () => {
  afterEach(closeAll);
  afterEach(() => Logger.overrideLogger(false));

  async function start(options: RedlockModuleOptions) {
    const recorder = new Recorder();
    const module = await Test.createTestingModule({ imports: [RedlockModule.forRoot(options)] })
      .setLogger(recorder)
      .compile();
    closeLater(await module.init());
    return { module, recorder, locks: module.get(LockService) };
  }

  const serversWith = (
    ...facts: NonNullable<ConstructorParameters<typeof MemoryLockServer>[0]>['facts'][]
  ) => createMemoryNodes(facts.map((each) => new MemoryLockServer({ facts: each })));

  it('is quiet and says how many nodes there are when all is well', async () => {
    const { module, recorder } = await start({ nodes: createMemoryNodes(3) });
    await module.close();
    expect(recorder.warnings).toBe('');
    expect(recorder.lines.join('\n')).toContain('Locks over 3 nodes, quorum 2');
  });

  it('is refused when one server is listed under two names', async () => {
    const boot = start({
      nodes: serversWith({ runId: 'one' }, { runId: 'two' }, { runId: 'one' }),
    });
    await expect(boot).rejects.toThrow(RedlockConfigError);
    await expect(boot).rejects.toThrow(/same server as memory:/);
  });

  it('warns of what is risky, once, with the fix', async () => {
    const { recorder } = await start({
      nodes: serversWith({ maxmemoryPolicy: 'allkeys-lru' }, { appendOnly: false }, {}),
      restartGuard: false,
    });
    expect(recorder.warnings.match(/2 warnings/g)).toHaveLength(1);
    expect(recorder.warnings).toContain('set maxmemory-policy noeviction');
    expect(recorder.warnings).toContain('restartGuard: true');
  });

  it('goes on without a minority of nodes, and says which', async () => {
    const nodes = createMemoryNodes(3);
    nodes[1]!.server.kill();
    const { recorder, locks } = await start({ nodes, restartGuard: false });
    expect(recorder.warnings).toContain(nodes[1]!.address);
    await expect(locks.withLock('a', async () => 'locked')).resolves.toBe('locked');
    const missing = `warn Node ${nodes[1]!.address} does not vote`;
    await eventually(() => expect(recorder.lines.join('\n')).toContain(missing));
    nodes[1]!.restart({ keepData: true });
    const joined = `log Node ${nodes[1]!.address} joined.`;
    await eventually(() => expect(recorder.lines).toContain(joined));
  });

  it('is refused with strict when a node is missing', async () => {
    const nodes = createMemoryNodes(3);
    nodes[1]!.server.kill();
    const boot = start({ nodes, strict: true, startupTimeout: 100 });
    await expect(boot).rejects.toThrow(QuorumUnavailableError);
    await expect(boot).rejects.toMatchObject({ quorum: 3, causes: [nodes[1]].map(hasAddress) });
  });

  it('waits with strict for a node that comes late', async () => {
    const nodes = createMemoryNodes(3);
    nodes[1]!.server.kill();
    setTimeout(() => nodes[1]!.server.restart({ keepData: true }), 100);
    const { recorder } = await start({ nodes, strict: true, startupTimeout: 60_000 });
    expect(recorder.warnings).not.toContain('error');
  });

  it.each(['kill', 'freeze'] as const)(
    'is refused, not hanging, without a quorum (%s)',
    async (fault) => {
      const nodes = createMemoryNodes(3);
      for (const node of nodes.slice(0, 2)) node.server[fault]();
      const boot = start({ nodes, startupTimeout: 100 });
      await expect(boot).rejects.toThrow(QuorumUnavailableError);
      await expect(boot).rejects.toThrow(/2 of 3 nodes must vote.*'startupTimeout' \(0\.1 s\)/);
      await expect(boot).rejects.toMatchObject({ causes: nodes.slice(0, 2).map(hasAddress) });
    },
  );

  it('leaves no connection open when it was refused', async () => {
    const nodes = createMemoryNodes(3);
    for (const node of nodes.slice(0, 2)) node.server.kill();
    await expect(start({ nodes, startupTimeout: 100 })).rejects.toThrow(QuorumUnavailableError);
    // A node that is still open refuses to be opened again.
    for (const node of nodes) node.server.restart({ keepData: true });
    const { locks } = await start({ nodes, restartGuard: false });
    await expect(locks.withLock('a', async () => 'locked')).resolves.toBe('locked');
  });

  it('logs later events: a node that leaves and comes back, and a lost lock', async () => {
    const nodes = createMemoryNodes(3);
    const received: string[] = [];
    const { recorder, locks } = await start({
      nodes,
      restartGuard: false,
      ttl: 500,
      onEvent: ({ type }) => received.push(type),
    });
    const lock = await locks.acquire('seat:1');
    for (const node of nodes) node.server.kill();
    if (!lock.signal.aborted)
      await new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    for (const node of nodes) node.server.restart({ keepData: false });
    await eventually(() =>
      expect(recorder.lines.filter((line) => line.includes('joined'))).toHaveLength(6),
    );
    expect(recorder.warnings).toContain(`Node ${nodes[0]!.address} left`);
    expect(recorder.warnings).toMatch(/Lock "seat:1" \(token \d+\) was lost/);
    expect(received).toEqual(
      expect.arrayContaining(['acquired', 'lost', 'node-left', 'node-joined']),
    );
  });

  // Jest fails a test in which a promise rejects without a handler.
  it.each([
    ['throws', fail],
    ['rejects', async () => fail()],
  ])(
    'survives a listener that %s, and logs its first failure',
    async (_how, onEvent: () => any) => {
      const { module, recorder, locks } = await start({ nodes: createMemoryNodes(1), onEvent });
      await expect(locks.withLock('a', async () => 'locked')).resolves.toBe('locked');
      await module.close();
      await new Promise((resolve) => setImmediate(resolve));
      const failures = recorder.lines.filter((line) => line.includes('no metrics'));
      expect(failures).toEqual([expect.stringMatching(/^error onEvent failed/)]);
    },
  );

  it.each(['kill', 'freeze'] as const)(
    'ends at once when it is closed while it waits for nodes (%s)',
    async (fault) => {
      const nodes = createMemoryNodes(3);
      for (const node of nodes) node.server[fault]();
      const redlock = RedlockModule.forRoot({ nodes, startupTimeout: '10m' });
      const module = await Test.createTestingModule({ imports: [redlock] })
        .setLogger(new Recorder())
        .compile();
      const app = closeLater(module.createNestApplication());
      const starting = app.init();
      starting.catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 20));
      await app.close();
      await expect(starting).rejects.toMatchObject({ code: 'REDLOCK_CLOSED', keys: [] });
    },
  );

  const hasAddress = (node?: { readonly address: string }) =>
    expect.objectContaining({ address: node?.address });

  function fail(): never {
    throw new Error('no metrics');
  }
});
