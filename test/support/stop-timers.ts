import { jest } from '@jest/globals';

/**
 * Has the test move the timers of the library, which call the globals. Sockets and clocks stay real, and so do the waits of the
 * test, which come from node:timers.
 */
export function stopTimers(): void {
  jest.useFakeTimers({
    doNotFake: ['nextTick', 'setImmediate', 'performance', 'Date', 'queueMicrotask'],
  });
}
