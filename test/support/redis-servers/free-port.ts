import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Ports below those which Linux (32768 up) and macOS (49152 up) give to outgoing connections, so that no client socket
 * sits on the port of a killed server when it comes back.
 */
const LOWEST_PORT = 12_000;
const HIGHEST_PORT = 32_000;

/** A loopback port that is free at this moment. Another process may still be faster: the caller retries. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 200; tries += 1) {
    const port = randomInt(LOWEST_PORT, HIGHEST_PORT);
    if (await canListen(port)) return port;
  }
  throw new Error(`found no free port between ${LOWEST_PORT} and ${HIGHEST_PORT}`);
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1' }, () => server.close(() => resolve(true)));
  });
}
