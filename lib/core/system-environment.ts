import { randomFillSync } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Clock, Environment, Random, Timers } from './environment.ts';

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

const systemClock: Clock = { monotonicMs: () => performance.now(), wallMicros };

const systemTimers: Timers = {
  set: (callback, delayMs, background = false) => {
    // A timer of less than half a millisecond would wait at least twice as long as asked.
    const timer = delayMs < 0.5 ? setImmediate(callback) : setTimeout(callback, delayMs);
    return background ? timer.unref() : timer;
  },
  clear: (handle) => {
    clearTimeout(handle as NodeJS.Timeout);
    clearImmediate(handle as NodeJS.Immediate);
  },
};

const NONCE_BYTES = 18;
const pool = Buffer.allocUnsafeSlow(NONCE_BYTES * 128);
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
