import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Runs a callback in the async context in which this module was loaded. Timers and sockets serve many requests, so nothing
 * that they call may run in the context of the one that happened to arm them.
 */
export const inModuleContext: <Result>(callback: () => Result) => Result =
  AsyncLocalStorage.snapshot();
