import { expect } from '@jest/globals';
import { FencingToken } from '../../../lib/core/fencing-token.ts';

export const HOUR = 3_600_000;
export const AGE = { maxAge: '30d' } as const;
export const AGE_HOURS = 30 * 24;

/** Time in microseconds, as the quorum numbers. */
export const timeOf = (ageHours: number): number =>
  Math.floor((Date.now() - ageHours * HOUR) * 1_000);
export const tokenOf = (
  key: string,
  ageHours: number,
  holder = `${ageHours} hours old`,
): FencingToken => new FencingToken(timeOf(ageHours), [key], holder);

/** Whether the token is the oldest one that the fence admitted not long ago. */
const isOldest = (token: unknown): boolean =>
  Math.abs(timeOf(AGE_HOURS) - Number(token)) < (HOUR / 2) * 1_000;

export const tooOld = () =>
  expect.objectContaining({
    code: 'STALE_TOKEN',
    currentHolder: '',
    currentToken: { asymmetricMatch: isOldest },
    message: expect.stringMatching(/maxAge of the fence/),
  });
export const usage = (why: RegExp) =>
  expect.objectContaining({ code: 'FENCED_USAGE', message: expect.stringMatching(why) });
