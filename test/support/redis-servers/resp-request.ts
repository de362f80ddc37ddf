import { Redis } from 'ioredis';

export interface RequestTarget {
  /** Where to connect: a host and port, or the path of a unix socket. */
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string };
  /** True, or the certificate to show. */
  readonly tls?: boolean | { readonly cert: string; readonly key: string };
  readonly user?: { readonly name: string; readonly password: string };
}

/**
 * Sends one command over a connection of its own and resolves with the reply as text; the elements of an array are joined by
 * spaces. Rejects when the server cannot be reached, answers with an error, or says nothing for `timeoutMs`.
 */
export async function respRequest(
  { address, tls, user }: RequestTarget,
  [name, ...args]: readonly [string, ...string[]],
  timeoutMs = 3_000,
): Promise<string> {
  const certificate = typeof tls === 'object' ? { cert: tls.cert, key: tls.key } : {};
  const redis = new Redis({
    ...address,
    // Reachability only: no secret worth protecting is sent to a throw-away server on loopback.
    ...(tls && { tls: { ...certificate, rejectUnauthorized: false } }),
    ...(user && { username: user.name, password: user.password }),
    lazyConnect: true,
    protocol: 2,
    // Nothing but the command, also to a server that is loading.
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  });
  let cause: unknown;
  redis.on('error', (error) => (cause ??= error));
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const fail = () => reject(new Error(`no answer within ${timeoutMs} ms`));
    timer = setTimeout(fail, timeoutMs);
  });
  const asked = redis.connect().then(() => redis.call(name, args));
  asked.catch(() => undefined);
  try {
    const reply = await Promise.race([asked, late]);
    return Array.isArray(reply) ? reply.join(' ') : String(reply);
  } catch (error) {
    throw cause ?? error;
  } finally {
    clearTimeout(timer);
    redis.disconnect();
  }
}

/** Resolves once PING is answered with PONG; rejects otherwise, also while the server still loads its data. */
export async function ping(target: RequestTarget, timeoutMs?: number): Promise<void> {
  const reply = await respRequest(target, ['PING'], timeoutMs);
  if (reply !== 'PONG') throw new Error(`PING was answered with ${reply}`);
}
