import { afterEach, beforeEach, jest } from '@jest/globals';
import type {
  FenceConformanceCase,
  FenceConformanceOptions,
  FenceStore,
} from '../../../lib/testing/index.ts';
import { SeededRandom } from '../../support/seeded-random.ts';

// The kit over stores in memory. Its time passes only when nothing else is left to do, so a slow machine changes nothing, and a run
// is the same each time.

/** Seed of all random numbers of the kit. */
export const SEED = 1;

export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => void setTimeout(resolve, ms));

jest.unstable_mockModule('node:timers/promises', () => ({
  setTimeout: sleep,
  // A loop of turns must not keep the time from passing.
  setImmediate: () => sleep(1),
}));
const { fenceConformance } = await import('../../../lib/testing/index.ts');

const machineTurn = setImmediate;

export function useVirtualTime(): void {
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'], now: Date.UTC(2026, 0) });
    const random = new SeededRandom(SEED);
    jest.spyOn(Math, 'random').mockImplementation(() => random.fraction());
  });
  afterEach(() => {
    jest.restoreAllMocks();
    jest.useRealTimers();
  });
}

/** The cases of the kit that the store fails. */
export async function failedCases(
  store: FenceStore,
  options: FenceConformanceOptions,
): Promise<FenceConformanceCase[]> {
  let isOver = false;
  const running = fenceConformance(store, options).finally(() => (isOver = true));
  while (!isOver) {
    jest.advanceTimersByTime(1);
    await new Promise<void>((resolve) => void machineTurn(resolve));
  }
  return (await running).cases.filter(({ failure }) => failure !== undefined);
}
