import 'reflect-metadata';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { postgresFence, type FenceEvent } from '../../lib/fencing/index.ts';
import {
  LockBusyError,
  LockService,
  type FencingToken,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';
import { startFencedDatabase, type FencedDatabase } from './support/fenced-database.ts';

const HOUR_MICROS = 3_600_000_000;

let database: FencedDatabase;

describe('withLock(key, work, { claim: true })', () => {
  const events: FenceEvent[] = [];
  let key: string;
  let count = 0;

  beforeAll(async () => {
    database = await startFencedDatabase('with_lock_claim');
  }, 120_000);
  afterAll(() => database?.stop());
  afterEach(closeAll);

  beforeEach(() => {
    events.length = 0;
    key = `seat:${(count += 1)}`;
  });

  async function start(options: Partial<RedlockModuleOptions> = {}) {
    const fence = postgresFence(database.pool, { onEvent: (event) => void events.push(event) });
    const module = await startModule({}, { fence, ...options });
    return { fence, locks: module.get(LockService) };
  }

  const seen = (hoursAhead: number) => ({
    value: Date.now() * 1_000 + hoursAhead * HOUR_MICROS,
    keys: [key],
    holder: 'ahead',
  });

  const outcomes = () =>
    events.filter((event) => event.keys.includes(key)).map(({ type }) => String(type));

  it('brings the token to the resource before the work begins, and gives its result', async () => {
    const { locks } = await start();
    const work = async ({ token }: { token: FencingToken }) => ({
      token,
      row: await database.fenceRow(key),
    });
    const { token, row } = await locks.withLock(key, work, { claim: true });
    expect(row).toEqual({ token: String(token), holder: token.holder });
  });

  it('takes the keys of the call again, also when the caller has changed its array meanwhile', async () => {
    const { fence, locks } = await start();
    await fence.claim(seen(23));
    const keys = [key];
    const held = locks.withLock(keys, (lock) => lock.keys, { claim: true });
    keys[0] = 'another';
    await expect(held).resolves.toEqual([key]);
    expect(outcomes()).toEqual(['admitted', 'stale', 'admitted']);
  });

  it('does not run the work for a caller that has gone while the claim waited', async () => {
    const { fence, locks } = await start();
    const caller = new AbortController();
    const [isClaiming, mayClaim] = [new Gate(), new Gate()];
    fence.claim = () => {
      isClaiming.open();
      return mayClaim.opened;
    };
    let ran = 0;
    const options = { claim: true, signal: caller.signal };
    const gone = locks.withLock(key, () => (ran += 1), options);
    await isClaiming.opened;
    caller.abort(new Error('gone'));
    await expect(gone).rejects.toThrow('gone');
    mayClaim.open();
    const free = await locks.acquire(key);
    await free.release();
    expect(ran).toBe(0);
  });

  it('rejects with the reason of the caller that has gone meanwhile, also when that says busy', async () => {
    const { fence, locks } = await start();
    const isRefused = new Gate();
    const claim = fence.claim.bind(fence);
    await claim(seen(1));
    const newer = isRefused.opened.then(() => locks.acquire(key));
    fence.claim = async (token) => {
      isRefused.open();
      await new Promise((resolve) => setImmediate(resolve));
      return claim(token);
    };
    const caller = new AbortController();
    const gone = new LockBusyError(['other'], 5, undefined);
    void newer.then(() => setTimeout(() => caller.abort(gone), 50));
    const options = { claim: true, wait: '5s', signal: caller.signal } as const;
    await expect(locks.withLock(key, () => undefined, options)).rejects.toBe(gone);
    await (await newer).release();
  });

  it('leaves an error of the work alone, also where it says that a lock is busy', async () => {
    const { locks } = await start();
    const busy = Object.assign(new Error('of the work'), { code: 'LOCK_BUSY' });
    const work = () => Promise.reject(busy);
    await expect(locks.withLock(key, work, { claim: true })).rejects.toBe(busy);
  });

  it('does not claim with claim: false, or without it', async () => {
    const { locks } = await start();
    await locks.withLock(key, () => undefined, { claim: false });
    await locks.withLock(key, () => undefined, {});
    await locks.withLock(key, () => undefined, { claim: undefined, ttl: '5s' });
    expect(outcomes()).toEqual([]);
  });

  it('is refused where the module has no fence', async () => {
    const { locks } = await start({ fence: undefined });
    let ran = 0;
    await expect(locks.withLock(key, () => (ran += 1), { claim: true })).rejects.toMatchObject({
      code: 'FENCED_USAGE',
    });
    expect(ran).toBe(0);
  });
});
