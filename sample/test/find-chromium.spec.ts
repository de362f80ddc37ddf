import { describe, expect, it } from '@jest/globals';
import { findChromium } from './browser/support/find-chromium.ts';

/** Browser tests fail without a browser, and say how to get one. */
describe('findChromium', () => {
  it('returns the executable that CHROMIUM_PATH names', () => {
    expect(findChromium({ CHROMIUM_PATH: process.execPath })).toBe(process.execPath);
  });

  it('returns no other executable when that one cannot be executed', () => {
    expect(() => findChromium({ ...process.env, CHROMIUM_PATH: '/nothing' })).toThrow(
      "CHROMIUM_PATH names '/nothing', which can't be executed.",
    );
  });

  it('lists the ways to get one when there is none', () => {
    expect(() => findChromium({ PATH: '' })).toThrow(/apt-get install .* chromium/);
    expect(() => findChromium({})).toThrow('CHROMIUM_PATH');
  });
});
