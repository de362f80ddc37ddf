import { afterEach, describe, expect, it, jest } from '@jest/globals';
import Database from 'libsql';
import { sqliteFence } from '../../lib/fencing/index.ts';
import { createLocks, type Locks, type LocksOptions } from '../../lib/locks/index.ts';
import { createMemoryNodes, MemoryLockServer } from '../../lib/testing/index.ts';

const opened: Locks[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((locks) => locks.close()));
});

async function open(options: Partial<LocksOptions> = {}) {
  const logger = { log: jest.fn(), warn: jest.fn(), error: jest.fn() };
  const locks = await createLocks({ nodes: createMemoryNodes(3), logger, ...options });
  opened.push(locks);
  return { locks, logger };
}

describe('createLocks', () => {
  it('gives locks at once, with tokens that grow, and the rules of LockService', async () => {
    const { locks } = await open();
    const tokens = [1, 2].map(() =>
      locks.withLock('a', ({ token }) => token.value, { wait: '1m' }),
    );
    const [first, second] = await Promise.all(tokens);
    expect(second! > first!).toBe(true);
    await expect(locks.withLock('a:{0}', () => 'done')).rejects.toThrow('is a template');
    const nested = locks.withLock('a', () => locks.withLock('a', () => 'done'));
    await expect(nested).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    expect(locks.status()).toMatchObject({ ready: true, held: 0 });
  });

  it('claims at its fence, and tells the logger and the listener what that rejects', async () => {
    const database = new Database(':memory:');
    const fence = sqliteFence(database);
    database.exec(fence.ddl());
    const onEvent = jest.fn();
    const { locks, logger } = await open({ fence, onEvent });
    const claim = { claim: true };
    const old = await locks.withLock('a', ({ token }) => token, claim);
    await locks.withLock('a', () => 'newer', claim);
    await expect(fence.transaction(old, () => 'done')).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
    expect(onEvent).toHaveBeenCalledWith(expect.objectContaining({ type: 'stale', keys: ['a'] }));
    expect(logger.warn).toHaveBeenCalledTimes(1);
  });

  it('rejects a claim without a fence, and a fence that can reject no stale token', async () => {
    const { locks } = await open();
    const claiming = locks.withLock('a', () => 'done', { claim: true });
    await expect(claiming).rejects.toThrow('{ nodes, fence: postgresFence(pool) }');
    const message = 'It has no table.';
    const check = async () => [{ severity: 'error', message }] as const;
    const broken = open({ fence: { claim: async () => undefined, check } });
    await expect(broken).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'fence' });
  });

  it.each(['httpErrors', 'isInTransaction', 'isGlobal', 'TTL'])(
    'rejects %s by its name',
    async (option) => {
      const refused = open({ [option]: true });
      await expect(refused).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option });
    },
  );

  it('rejects servers that are unsafe, and servers that are away, and leaves them', async () => {
    const replica = new MemoryLockServer({ facts: { role: 'slave' } });
    const unsafe = open({ nodes: createMemoryNodes([replica]) });
    await expect(unsafe).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'nodes' });
    const away = open({ nodes: ['redis://127.0.0.1:1'], startupTimeout: 1 });
    await expect(away).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
  });

  it('waits at its end for the work that runs, and gives no lock after it', async () => {
    const { locks, logger } = await open();
    let finish!: (word: string) => void;
    let work!: Promise<string>;
    await new Promise<void>((begun) => {
      work = locks.withLock('a', () => {
        begun();
        return new Promise((resolve) => (finish = resolve));
      });
    });
    const closing = locks[Symbol.asyncDispose]();
    await expect(locks.tryAcquire('b')).rejects.toMatchObject({ code: 'REDLOCK_CLOSED' });
    finish('done');
    await closing;
    await expect(work).resolves.toBe('done');
    expect(logger.log).toHaveBeenLastCalledWith(expect.stringContaining('lock "a"'));
    await expect(locks.close()).resolves.toBeUndefined();
  });
});
