import { expect, it } from '@jest/globals';
import { Heartbeat } from '../../../lib/redis/connection/heartbeat.ts';
import { ManualEnvironment } from '../../support/manual-environment.ts';

const SILENCE_LIMIT_MS = 400;
/** One more than the limit has. */
const BEATS = 5;

/** Returns how often a connection that owes an answer was called silent, `arrive` having been called at the end of its last beat. */
async function silences(arrive: (heartbeat: Heartbeat) => void): Promise<number> {
  const environment = new ManualEnvironment();
  let [beats, silent] = [0, 0];
  const connection = {
    get isAsked() {
      if ((beats += 1) === BEATS) queueMicrotask(() => arrive(heartbeat));
      return true;
    },
    ping: () => undefined,
    unready: () => undefined,
    silent: () => void (silent += 1),
  };
  const heartbeat = new Heartbeat(connection, SILENCE_LIMIT_MS, environment);
  heartbeat.start();
  heartbeat.watch();
  await environment.advance((SILENCE_LIMIT_MS / (BEATS - 1)) * BEATS);
  heartbeat.stop();
  return silent;
}

it('a connection on which nothing has arrived for the limit is silent', async () => {
  expect(await silences(() => undefined)).toBe(1);
});

it('a connection is not silent where the answer is there when the sockets are read next: this process was late, not the server', async () => {
  expect(await silences((heartbeat) => (heartbeat.hasReceived = true))).toBe(0);
});
