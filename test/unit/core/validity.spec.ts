import { describe, expect, it } from '@jest/globals';
import { driftMs, MINIMUM_VALIDITY, validUntilMs } from '../../../lib/core/validity.ts';

describe('validity', () => {
  it('counts from before the request, less the drift of clocks and the resolution of expiry', () => {
    expect(validUntilMs(1_000, 10_000, 0.01)).toBe(1_000 + 10_000 - 102);
    expect(driftMs(10_000, 0.01)).toBe(102);
    expect(driftMs(10_000, 0)).toBe(2);
  });

  it('calls a grant of less than a tenth of the ttl no grant', () => {
    expect(MINIMUM_VALIDITY).toBe(0.1);
  });
});
