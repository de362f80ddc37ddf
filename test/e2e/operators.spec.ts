import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  RedlockConfigError,
  type LockBusyError,
  type LockLostError,
} from '../../lib/core/errors.ts';
import { createRedisNode } from '../support/clients.ts';
import { requiredAclRules } from '../../lib/redis/preflight.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useClosing, useRedlocks } from '../support/use-redlocks.ts';

const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('somebody who looks for the holder of a lock', () => {
  const user = `user locks on >password ${requiredAclRules('lock:')}`;
  const servers = useRedisServers(3, { acl: ['user default on nopass ~* &* +@all', user] });
  const open = useRedlocks();
  const closing = useClosing();
  let admin: Redis;
  beforeAll(() => void (admin = new Redis(servers[0]!.url)));
  afterAll(() => admin.quit());

  const withRightsForLocks = () =>
    servers.map(({ url }) => createRedisNode(url.replace('//', '//locks:password@')));

  it('finds its process and since when it has it, also where users have no more rights than locks need', async () => {
    const beganMs = Date.now();
    const holder = await open(withRightsForLocks());
    const other = await open(withRightsForLocks());
    await holder.acquire('a');
    const { process: found, acquiredAt } = await other.inspect('a');
    expect(found).toMatchObject({ pid: process.pid, host: expect.any(String) });
    expect(acquiredAt!.getTime()).toBeGreaterThanOrEqual(beganMs - 1);
    expect(acquiredAt!.getTime()).toBeLessThanOrEqual(Date.now());
    expect((await other.inspect('free')).process).toBeUndefined();
  });

  it('reads it in the error of a caller that waited', async () => {
    const holder = await open(redisNodes(servers), { identity: () => 'pod 7\u001B[2J' });
    const other = await open(redisNodes(servers));
    await holder.acquire('b');
    const busy = (await failure(other.acquire('b', { wait: 300 }))) as LockBusyError;
    expect(busy.process).toMatch(/^pod 7 \[2J since 20\d\d-/);
    expect(busy.message).toContain(`is held by ${busy.process}`);
  });

  it('finds nothing where identity is false, and then nobody asks', async () => {
    const holder = await open(redisNodes(servers), { identity: false, keyPrefix: 'quiet:' });
    const other = await open(redisNodes(servers), { identity: false, keyPrefix: 'quiet:' });
    await holder.acquire('b');
    const busy = (await failure(other.acquire('b', { wait: 300 }))) as LockBusyError;
    expect(busy.process).toBeUndefined();
    expect(await admin.keys('quiet:#process:*')).toEqual([]);
  });

  it('lists what a quorum holds, in the order of keys, where the user may scan', async () => {
    const holder = await open(redisNodes(servers), { keyPrefix: 'list[1]:' });
    await holder.acquire(['x*2', 'x*1', 'y']);
    await admin.set('list[1]:x*3', 'on one server', 'PX', 60_000);
    await admin.set('list[1]:x*#queue', 'no lock', 'PX', 60_000);
    const list = await holder.list('x*');
    expect(list.isComplete).toBe(true);
    expect(list.locks.map(({ key, process: found }) => [key, found?.pid])).toEqual([
      ['x*1', process.pid],
      ['x*2', process.pid],
    ]);
    const refusal = await failure((await open(withRightsForLocks())).list());
    expect(refusal).toBeInstanceOf(RedlockConfigError);
    expect((refusal as Error).message).toContain('+scan');
  });

  it('reads in a list that is cut that there may be more', async () => {
    const [node] = redisNodes(servers.slice(0, 1));
    await NodeDriver.open(closing(node!));
    for (const key of ['a', 'b', 'c']) await admin.set(`cut:${key}`, 'holder', 'PX', 60_000);
    const list = (most: number) =>
      new Promise((settle) => node!.list({ keyPrefix: 'cut:', keysBegin: '', most }, settle));
    expect(await list(2)).toMatchObject({ names: { length: 2 }, isComplete: false });
    expect(await list(3)).toMatchObject({ names: { length: 3 }, isComplete: true });
  });

  it('keeps its key for as long as the process runs, and little longer', async () => {
    const { token } = await (await open(redisNodes(servers), { keyPrefix: 'life:' })).acquire('a');
    const leftMs = () => admin.pttl(`life:#process:${token.holder.slice(0, 8)}`);
    await eventually(async () => expect(await leftMs()).toBeGreaterThan(40_000));
    expect(await leftMs()).toBeLessThanOrEqual(60_000);
  });
});

describe('a lock that is revoked', () => {
  const servers = useRedisServers(3);
  const open = useRedlocks();
  let admins: Redis[];
  beforeAll(() => void (admins = servers.map(({ url }) => new Redis(url))));
  afterAll(() => Promise.all(admins.map((admin) => admin.quit())));

  it('is lost by its holder at the next extension, and taken by nobody until its lease ends', async () => {
    const holder = await open(redisNodes(servers), { ttl: '1h' });
    const next = await open(redisNodes(servers), { ttl: '1h' });
    const held = await holder.acquire('a');
    expect((await next.revoke('a', 'ana', 'hangs')).endsInMs).toBeGreaterThan(0);
    expect(await next.tryAcquire('a')).toBeNull();
    const lost = (await failure(held.extend())) as LockLostError;
    expect([lost.reason, lost.revoked]).toEqual(['revoked', 'by ana: hangs']);
    expect(lost.message).toContain('it was revoked by ana: hangs');
    expect([held.isHeld, held.signal.reason]).toEqual([false, lost]);
    expect(await next.tryAcquire('a')).toBeNull();
    await Promise.all(admins.map((admin) => admin.pexpire('lock:a', 1)));
    const { token } = await next.acquire('a', { wait: '1m' });
    expect(token.value).toBeGreaterThan(held.token.value);
  });

  it('stays lost where one server forgot it, and its holder would have it again there', async () => {
    const holder = await open(redisNodes(servers), { ttl: '1h' });
    const other = await open(redisNodes(servers), { ttl: '1h' });
    const held = await holder.acquire('forgotten');
    await admins[2]!.del('lock:forgotten');
    await other.revoke('forgotten');
    expect(await failure(held.extend())).toMatchObject({ reason: 'revoked' });
  });

  it('is left alone where nobody holds it, or where it was revoked before', async () => {
    const redlock = await open(redisNodes(servers), { ttl: '1h' });
    expect(await redlock.revoke('free')).toMatchObject({ holder: null, endsInMs: 0 });
    const { token } = await redlock.acquire('twice');
    expect(await redlock.revoke('twice', 'ana')).toMatchObject({ holder: token.holder });
    const again = await redlock.revoke('twice', 'ben');
    expect(again.revoked).toBe('by ana: no reason given');
    expect(again.endsInMs).toBeGreaterThan(0);
  });

  const noLock = {
    message: expect.stringMatching(/^WRONGTYPE lock:data holds data that is no lock/),
  };

  it.each([
    ['a hash', 'hset', ['lock:data', 'important', 'yes'], { failure: noLock }],
    ['a text', 'set', ['lock:data', 'important'], { holder: 'important' }],
  ])('is none where %s of somebody else lies, which is named and kept', async (...row) => {
    const [, command, data, seen] = row;
    const redlock = await open(redisNodes(servers));
    const dumps = () => Promise.all(admins.map((admin) => admin.dump('lock:data')));
    await Promise.all(admins.map((admin) => admin.del('lock:data')));
    await Promise.all(admins.map((admin) => admin.call(command, data)));
    const before = await dumps();
    const refusal = await failure(redlock.revoke('data', 'ana'));
    const causes = servers.map(() => expect.objectContaining(noLock));
    expect(refusal).toMatchObject({ code: 'QUORUM_UNAVAILABLE', causes });
    expect((refusal as Error).message).toContain('Nothing was revoked.');
    expect((await redlock.inspect('data')).nodes).toMatchObject(servers.map(() => seen));
    expect(await dumps()).toEqual(before);
  });

  it('of which fewer than a quorum know is an error, and stays held', async () => {
    const nodes = redisNodes(servers);
    const redlock = await open(nodes, { ttl: '1h' });
    const held = await redlock.acquire('minority');
    for (const node of nodes.slice(1))
      node.revoke = (_, settle) =>
        settle({ kind: 'failed', nothingWritten: true, reason: 'error', message: 'no' });
    expect(await failure(redlock.revoke('minority'))).toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    await held.extend();
    expect(held.isHeld).toBe(true);
  });
});
