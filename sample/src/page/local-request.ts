import type { IncomingHttpHeaders } from 'node:http';

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Whether the request was meant for this machine. A name that somebody else's DNS points here (rebinding) is not.
 * @param port on which the server listens.
 */
export function isForLoopback({ host }: IncomingHttpHeaders, port: number): boolean {
  return LOOPBACK_NAMES.some((name) => host === `${name}:${port}`);
}

/** Whether the page itself sent the request. Browsers put `Origin` on every POST, and no script can change it. */
export function isFromPage({ host, origin }: IncomingHttpHeaders): boolean {
  return host !== undefined && origin === `http://${host}`;
}
