import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes, randomFillSync } from 'node:crypto';
import { hostname, uptime } from 'node:os';
import { basename } from 'node:path';
import type { Clock, Environment, Random, Timers } from './environment.ts';

/**
 * Runs a callback in the async context in which this module was loaded. Timers and sockets serve many requests, so nothing
 * that they call may run in the context of the one that happened to arm them.
 */
export const inModuleContext: <Result>(callback: () => Result) => Result =
  AsyncLocalStorage.snapshot();

// The global `performance`, looked up at each call: the fake timers of a test move it together with `Date` and `setTimeout`.
let wallOffsetMs = Date.now() - performance.now();

/**
 * The wall clock has milliseconds only. Microseconds come from the monotonic clock, so that neighbouring proposals
 * differ and grow, which saves a second round trip; a step of the wall clock is followed.
 */
function wallMicros(): number {
  const monotonicMs = performance.now();
  const errorMs = Date.now() - (monotonicMs + wallOffsetMs);
  if (errorMs > 1.5 || errorMs < -1.5) wallOffsetMs += errorMs;
  return Math.floor((monotonicMs + wallOffsetMs) * 1000);
}

// Taken now: fake timers in tests of users replace them, and sockets are real there.
const nextImmediate = setImmediate;
const nextTick = process.nextTick.bind(process);
const nextMicrotask = queueMicrotask;

const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMicros,
  sinceBootMs: () => uptime() * 1000,
};

const systemTimers: Timers = {
  set: (callback, delayMs, background = false) => {
    const run = () => inModuleContext(callback);
    // A timer of less than half a millisecond would wait at least twice as long as asked.
    const isShort = delayMs < 0.5;
    // A timer keeps the async context in which it was made, and with it what a request of a user keeps there.
    const timer = inModuleContext(() => (isShort ? setImmediate(run) : setTimeout(run, delayMs)));
    if (background) timer.unref();
    // The counterpart of each clears it: Node takes any object for an immediate, and one that is none makes it lose another one. Under
    // the fake timers of a test it is an object of theirs, which may be cleared after them.
    const clear = (isShort ? clearImmediate : clearTimeout) as (timer: unknown) => void;
    return () => clear(timer);
  },
  clear: (handle) => (handle as (() => void) | undefined)?.(),
};

/** The facts by which people find this process. */
export function describeProcess(): object {
  const { npm_package_name: application, npm_package_version: version } = process.env;
  return {
    host: hostname(),
    pid: process.pid,
    application: application ?? basename(process.argv[1] ?? ''),
    version,
    startedAt: new Date(Date.now() - process.uptime() * 1000).toISOString(),
  };
}

/** The moment that a token names; undefined where its number is no time, or ahead of the clock. */
export function pastMoment(token: number, { clock }: Pick<Environment, 'clock'>): Date | undefined {
  return token > 0 && token <= clock.wallMicros() ? new Date(token / 1000) : undefined;
}

const MARK_BYTES = 6;
const HOLDER_BYTES = 12;
const pool = Buffer.allocUnsafeSlow(HOLDER_BYTES * 128);
let poolOffset = pool.length;

/** 16 base64url characters behind the mark, cut from a pool because a system call per holder is expensive. */
function holder(mark: string): string {
  if (poolOffset === pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  const start = poolOffset;
  poolOffset += HOLDER_BYTES;
  return mark + pool.toString('base64url', start, poolOffset);
}

const mark = (): string => randomBytes(MARK_BYTES).toString('base64url');

const systemRandom: Random = { fraction: () => Math.random(), mark, holder };

/** The callbacks behind one listener, because Node warns of more than ten. */
const exitCallbacks = new Set<() => void>();

function callAtExit(): void {
  for (const callback of exitCallbacks) callback();
}

export const systemEnvironment: Environment = Object.freeze({
  clock: systemClock,
  timers: systemTimers,
  random: systemRandom,
  afterPoll: (callback: () => void) => {
    nextImmediate(() => inModuleContext(callback));
  },
  // A tick that is asked for by a promise reaction runs after all reactions.
  endOfTick: (callback: () => void) => {
    nextMicrotask(() => nextTick(() => inModuleContext(callback)));
  },
  atExit: (callback: () => void) => {
    if (exitCallbacks.size === 0) process.on('exit', callAtExit);
    exitCallbacks.add(callback);
    return () => {
      exitCallbacks.delete(callback);
      if (exitCallbacks.size === 0) process.off('exit', callAtExit);
    };
  },
});
