import { randomFillSync } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Clock, Environment, Random, Timers } from './environment.ts';

const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  // The wall clock has milliseconds only; the sub-millisecond part of the monotonic clock keeps
  // neighbouring proposals apart, which saves a second round trip.
  wallMicros: () => Date.now() * 1000 + Math.floor((performance.now() % 1) * 1000),
};

const systemTimers: Timers = {
  set: (callback, delayMs) => {
    // Below half a millisecond a timer would wait at least twice as long as asked.
    if (delayMs < 0.5) return setImmediate(callback).unref();
    return setTimeout(callback, delayMs).unref();
  },
  clear: (handle) => {
    clearTimeout(handle as NodeJS.Timeout);
    clearImmediate(handle as NodeJS.Immediate);
  },
};

const NONCE_BYTES = 18;
const pool = Buffer.allocUnsafe(NONCE_BYTES * 128);
let poolOffset = pool.length;

/** 24 base64url characters, 144 random bits, cut from a pool because one system call per nonce is dear. */
function nonce(): string {
  if (poolOffset === pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  const start = poolOffset;
  poolOffset += NONCE_BYTES;
  return pool.toString('base64url', start, poolOffset);
}

const systemRandom: Random = { fraction: () => Math.random(), nonce };

/** Real time and real chance. */
export const systemEnvironment: Environment = Object.freeze({
  clock: systemClock,
  timers: systemTimers,
  random: systemRandom,
});
