import { beforeEach, expect, it, jest } from '@jest/globals';
import { FencingToken } from '../../../lib/core/fencing-token.ts';
import type { Fence } from '../../../lib/fencing/index.ts';

export const HOUR = 3_600_000;
export const AGE = { maxAge: '30d' } as const;
export const AGE_HOURS = 30 * 24;

/** As the quorum numbers: in microseconds. */
export const timeOf = (ageHours: number): number =>
  Math.floor((Date.now() - ageHours * HOUR) * 1_000);
export const tokenOf = (
  key: string,
  ageHours: number,
  holder = `${ageHours} hours old`,
): FencingToken => new FencingToken(timeOf(ageHours), [key], holder);

/** The row of a token that was admitted when it was younger. */
export const rowOf = (key: string, ageHours: number): string =>
  `INSERT INTO redlock_fence (resource, token, holder) VALUES ('${key}', ${timeOf(ageHours)}, '${ageHours} hours old')`;

export const tooOld = (ageHours = AGE_HOURS) =>
  expect.objectContaining({
    code: 'STALE_TOKEN',
    currentHolder: '',
    currentToken: expect.stringMatching(new RegExp(`^${String(timeOf(ageHours)).slice(0, 8)}`)),
    message: expect.stringMatching(/maxAge of the fence/),
  });
export const usage = (why: RegExp) =>
  expect.objectContaining({ code: 'FENCED_USAGE', message: expect.stringMatching(why) });
export const stale = expect.objectContaining({ code: 'STALE_TOKEN' });

let count = 0;

export interface Target {
  fence: Fence;
  run(sql: string): unknown;
  /** A fence without a `maxAge`. */
  plain: Fence;
}

/** What every database owes. */
export function itRefusesByAge(target: Target): void {
  let key: string;
  beforeEach(async () => {
    key = `seat:by age:${(count += 1)}`;
    await target.run('DELETE FROM redlock_fence');
  });

  it('refuses what is older than its maxAge, in every form, for keys with a row and without', async () => {
    const { fence } = target;
    await target.run(rowOf(key, AGE_HOURS + 0.1));
    const holder = `${AGE_HOURS + 0.1} hours old`;
    const own = { value: timeOf(AGE_HOURS + 0.05), keys: [key, `${key}:new`], holder };
    await expect(fence.claim(own)).rejects.toEqual(tooOld());
    await expect(fence.transaction(own, () => 'ran')).rejects.toEqual(tooOld());
    const young = tokenOf(`${key}:new`, AGE_HOURS - 0.1);
    await fence.claim(young);
    await expect(fence.transaction(young, () => 'ran')).resolves.toBe('ran');
    await expect(fence.claim(tokenOf(`${key}:new`, AGE_HOURS + 1))).rejects.toMatchObject({
      currentHolder: young.holder,
    });
    await target.plain.claim(tokenOf(`${key}:of all ages`, 10 * AGE_HOURS));
  });

  it('deletes the rows of times that are an hour older, and no others', async () => {
    const { fence } = target;
    const run = (sql: string) => target.run(sql);
    for (const hours of [AGE_HOURS + 1.1, 5 * AGE_HOURS])
      await run(rowOf(`${key}:${hours}`, hours));
    const others = [0, AGE_HOURS - 1, AGE_HOURS + 0.1, AGE_HOURS + 0.9];
    for (const hours of others) await run(rowOf(`${key}:${hours}`, hours));
    await run("INSERT INTO redlock_fence (resource, token) VALUES ('counter', 7)");
    await expect(fence.prune()).resolves.toBe(2);
    await expect(fence.prune()).resolves.toBe(0);
    await expect(fence.claim(tokenOf(`${key}:${5 * AGE_HOURS}`, AGE_HOURS + 2))).rejects.toEqual(
      tooOld(),
    );
    for (const hours of others) {
      const older = tokenOf(`${key}:${hours}`, hours + 0.01, 'older');
      await expect(target.plain.claim(older)).rejects.toEqual(stale);
    }
    await expect(
      target.plain.claim({ value: 6, keys: ['counter'], holder: 'x' }),
    ).rejects.toMatchObject({ currentToken: '7' });
  });

  it('deletes nothing of what is young by the clock of the process, when that of the database is ahead', async () => {
    await target.run(rowOf(key, 5 * AGE_HOURS));
    const now = Date.now();
    const clock = jest.spyOn(Date, 'now').mockReturnValue(now - 10 * AGE_HOURS * HOUR);
    try {
      await expect(target.fence.prune()).resolves.toBe(0);
    } finally {
      clock.mockRestore();
    }
    await expect(target.fence.prune()).resolves.toBe(1);
  });

  it('deletes page by page', async () => {
    const keys = Array.from({ length: 2_300 }, (_none, index) => `${key}:ä${index}`);
    for (let at = 0; at < keys.length; at += 100)
      await target.plain.claim({
        value: timeOf(5 * AGE_HOURS),
        keys: keys.slice(at, at + 100),
        holder: 'old',
      });
    await expect(target.fence.prune()).resolves.toBe(keys.length);
  });

  it('counts each key once where two prune at the same time', async () => {
    const keys = Array.from({ length: 60 }, (_none, index) => `${key}:${index}`);
    await target.plain.claim({ value: timeOf(5 * AGE_HOURS), keys, holder: 'old' });
    const [first, second] = await Promise.all([target.fence.prune(), target.fence.prune()]);
    expect(first + second).toBe(60);
  });

  it('is not pruned without a maxAge, and says so', async () => {
    await expect(target.plain.prune()).rejects.toMatchObject({
      code: 'REDLOCK_CONFIG',
      option: 'maxAge',
      message: expect.stringMatching(/Nothing was deleted/),
    });
  });

  it('refuses the token of a counter, which has no age', async () => {
    const counted = { value: 7, keys: [key], holder: 'a' };
    const refusal = usage(/7 is no time.*maxAge.*Nothing was written/);
    await expect(target.fence.claim(counted)).rejects.toEqual(refusal);
    await expect(target.fence.transaction(counted, () => 'ran')).rejects.toEqual(refusal);
  });
}
