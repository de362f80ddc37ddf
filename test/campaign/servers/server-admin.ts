import { Redis } from 'ioredis';
import type { RedisServer } from '../../support/redis-servers/index.ts';
import { respRequest } from '../../support/redis-servers/resp-request.ts';

/**
 * A connection of its own, for settings of the server. Commands are refused once it is lost; it never reconnects, and
 * answers of a server that is loading its data are taken as they are.
 */
export async function openAdmin(server: RedisServer): Promise<Redis> {
  const admin = new Redis(server.url, {
    lazyConnect: true,
    enableReadyCheck: false,
    // Nothing that a server refuses to strangers.
    disableClientInfo: true,
    protocol: 2,
    enableOfflineQueue: false,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  });
  // Error also rejects every command that waits.
  admin.on('error', () => undefined);
  await admin.connect();
  return admin;
}

/** Runs `work` with a connection of its own. */
export async function withAdmin<Result>(
  server: RedisServer,
  work: (admin: Redis) => Promise<Result>,
): Promise<Result> {
  const admin = await openAdmin(server);
  try {
    return await work(admin);
  } finally {
    admin.disconnect();
  }
}

/** Answer to PING on a new connection: `PONG`, the text of an error, or `no answer …` after `timeoutMs`. */
export function pingAnswer(server: RedisServer, timeoutMs = 1_000): Promise<string> {
  const address = { host: server.host, port: server.port };
  return respRequest({ address }, ['PING'], timeoutMs).catch((error: Error) => error.message);
}

export async function infoField(admin: Redis, name: string): Promise<string> {
  const value = new RegExp(`^${name}:(.*)$`, 'm').exec(await admin.info())?.[1]?.trim();
  if (value === undefined) throw new Error(`INFO knows no ${name}`);
  return value;
}

/** Number of times that the server was given this command since it started. */
export function commandCalls(server: RedisServer, command: string): Promise<number> {
  return withAdmin(server, async (admin) => {
    const statistics = await admin.info('commandstats');
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(statistics)?.[1] ?? 0);
  });
}

/** The value of one setting. */
export async function settingOf(admin: Redis, name: string): Promise<string> {
  const [, value] = (await admin.config('GET', name)) as string[];
  if (value === undefined) throw new Error(`CONFIG knows no ${name}`);
  return value;
}
