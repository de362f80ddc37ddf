import { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { mkdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '../../test/support/eventually.ts';
import type { RedisServer } from '../../test/support/redis-servers/index.ts';
import { respRequest } from '../../test/support/redis-servers/resp-request.ts';

/**
 * A state of a real server in which it refuses commands, says nothing, or forgets its scripts. One at a time on a server, which
 * is a process of this machine without login.
 */
export interface ErrorCondition {
  readonly name: string;
  /** Clients lose their connections, and for as long as it lasts they get no new ones. */
  readonly isOffline?: boolean;
  /** Server asks all clients to join again. */
  readonly rejoins?: boolean;
  /** Server answers every vote with an error. */
  readonly refuses?: boolean;
  /** The guard of the server begins again: it may not vote for a while after its end. */
  readonly beginsGuard?: boolean;
  /** Resolves when the condition holds, with what ends it. */
  readonly begin: (server: RedisServer) => Promise<() => Promise<void>>;
}

type Change = (admin: Redis) => Promise<unknown>;

function switched(
  name: string,
  begin: Change,
  end: Change,
  more: Partial<ErrorCondition> = {},
): ErrorCondition {
  const beginNow = async (server: RedisServer) => {
    await withAdmin(server, begin);
    return () => withAdmin(server, end);
  };
  return { name, ...more, begin: beginNow };
}

const set = (name: string, value: string) => (admin: Redis) => admin.config('SET', name, value);
const aclRule = (...rules: string[]): Change => {
  return (admin) => admin.call('ACL', 'SETUSER', 'default', ...rules);
};
/** A master at which nobody listens: it would replace the data of its replica. */
const becomeReplica: Change = (admin) => admin.replicaof('127.0.0.1', '1');
const becomeMaster: Change = (admin) => admin.replicaof('NO', 'ONE');
/** The rights of the default user of a server that was started without an ACL. */
const allRights = aclRule('+@all', '~*', '&*');
const PASSWORD = 'set-meanwhile';

export const OOM = switched('OOM', set('maxmemory', '1'), set('maxmemory', '0'));
/** Clients leave a server that is no primary, and its guard begins again when it is one. */
export const READONLY = switched('READONLY as a replica', becomeReplica, becomeMaster, {
  beginsGuard: true,
});
/** Clients leave a server without its replicas: one of those may be the primary by now. */
export const NOREPLICAS = switched(
  'NOREPLICAS',
  set('min-replicas-to-write', '1'),
  set('min-replicas-to-write', '0'),
  { rejoins: true },
);
/** A folder in the place of the file: root may write everywhere else. */
export const MISCONF = switched(
  'MISCONF after a snapshot that failed',
  async (admin) => {
    await mkdir(await snapshotFile(admin));
    await snapshot(admin, 'err');
    await admin.config('SET', 'save', '3600 1000000000');
  },
  async (admin) => {
    await admin.config('SET', 'save', '');
    await rmdir(await snapshotFile(admin));
    await snapshot(admin, 'ok');
    await rm(await snapshotFile(admin));
  },
);
export const NO_KEYS = switched('no right to the keys', aclRule('resetkeys'), allRights);

const refusing: readonly ErrorCondition[] = [
  OOM,
  READONLY,
  switched(
    'MASTERDOWN as a replica that serves no stale data',
    async (admin) => {
      await admin.config('SET', 'replica-serve-stale-data', 'no');
      await becomeReplica(admin);
    },
    async (admin) => {
      await becomeMaster(admin);
      await admin.config('SET', 'replica-serve-stale-data', 'yes');
    },
    { beginsGuard: true },
  ),
  NOREPLICAS,
  MISCONF,
  switched('no right to scripts', aclRule('-@scripting'), allRights),
  NO_KEYS,
  switched('no right to a command of the script', aclRule('-set'), allRights),
  switched(
    'NOAUTH after a password was set',
    async (admin) => {
      await admin.config('SET', 'requirepass', PASSWORD);
      await killClients(admin);
    },
    async (admin) => {
      await admin.auth(PASSWORD);
      await admin.config('SET', 'requirepass', '');
    },
    { isOffline: true },
  ),
  {
    name: 'too many clients',
    isOffline: true,
    // The connection of the condition is the only one; no other could end it.
    begin: async (server) => {
      const admin = await openAdmin(server);
      const before = await settingOf(admin, 'maxclients');
      await admin.config('SET', 'maxclients', '1');
      await killClients(admin);
      return async () => {
        await admin.config('SET', 'maxclients', before);
        admin.disconnect();
      };
    },
  },
  {
    name: 'BUSY in a slow script',
    begin: async (server) => {
      const kill = await startEndlessScript(server, 1);
      await eventually(() => expectPing(server, /^BUSY/));
      return kill;
    },
  },
];

/** The states in which a server answers ACQUIRE with an error, or lets nobody connect. */
export const REFUSING: readonly ErrorCondition[] = refusing.map((condition) => ({
  ...condition,
  refuses: !condition.isOffline,
}));

/** A script runs for `silentMs`, and keeps the server from answering anybody. */
export function silentScript(silentMs: number): ErrorCondition {
  return {
    name: 'silent in a slow script',
    begin: async (server) => {
      const kill = await startEndlessScript(server, silentMs);
      // The command is read as soon as the limit has passed.
      const killed = kill();
      killed.catch(() => undefined);
      return () => killed;
    },
  };
}

/** Keeps every client, or everybody who writes, waiting. `ALL` cannot be ended early: no command would be read. */
export function pausedClients(mode: 'ALL' | 'WRITE', silentMs: number): ErrorCondition {
  return {
    name: `CLIENT PAUSE ${mode}`,
    begin: async (server) => {
      await withAdmin(server, (admin) => admin.call('CLIENT', 'PAUSE', String(silentMs), mode));
      return async () => {
        if (mode === 'WRITE') await withAdmin(server, (admin) => admin.call('CLIENT', 'UNPAUSE'));
        await eventually(() => expectPing(server, /^PONG/), { timeoutMs: silentMs + 20_000 });
      };
    },
  };
}

const FILLER_KEYS = 200;
/** The size of a value: more than what is read between two looks at the connections. */
const FILLER_BYTES = 4_096;

/** The server is restarted from a snapshot made now, and takes `loadingMs` to load it. */
export function loading(loadingMs: number): ErrorCondition {
  return {
    name: 'LOADING after a restart',
    beginsGuard: true,
    isOffline: true,
    begin: async (server) => {
      const fillers = Array.from({ length: FILLER_KEYS }, (_, index) => `filler:${index}`);
      await withAdmin(server, async (admin) => {
        // The value is random, so that it is not compressed.
        const value = randomBytes(FILLER_BYTES).toString('latin1');
        await admin.mset(fillers.flatMap((name) => [name, value]));
        await admin.save();
      });
      const delayMicros = String(Math.round((loadingMs * 1_000) / FILLER_KEYS));
      const often = ['--loading-process-events-interval-bytes', '1024'];
      const args = ['--key-load-delay', delayMicros, ...often];
      const restarted = server.restart({ keepData: true, args });
      await eventually(() => expectPing(server, /^LOADING/));
      return async () => {
        await restarted;
        await withAdmin(server, (admin) => admin.unlink(fillers));
      };
    },
  };
}

/** The conditions of one moment: scripts are forgotten, or connections closed, all at once. */
export const MOMENTARY: readonly ErrorCondition[] = [
  switched(
    'NOSCRIPT after SCRIPT FLUSH',
    (admin) => admin.call('SCRIPT', 'FLUSH', 'SYNC'),
    async () => undefined,
    { rejoins: true },
  ),
  switched('all clients disconnected', killClients, async () => undefined, { isOffline: true }),
];

async function killClients(admin: Redis): Promise<void> {
  for (const type of ['normal', 'pubsub'])
    await admin.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes');
}

/** Resolves, with its end, when the server runs nothing but the script. For `limitMs` it listens to nobody, then to SCRIPT KILL. */
async function startEndlessScript(
  server: RedisServer,
  limitMs: number,
): Promise<() => Promise<void>> {
  const [runner, killer] = await Promise.all([openAdmin(server), openAdmin(server)]);
  const before = await settingOf(killer, 'lua-time-limit');
  await killer.config('SET', 'lua-time-limit', limitMs);
  // The script can be killed, as it writes nothing.
  const ended = runner.eval('while true do end', 0).catch(() => undefined);
  await eventually(() => expectPing(server, /^(no answer|BUSY)/, 50));
  return async () => {
    await killer.call('SCRIPT', 'KILL');
    await ended;
    await killer.config('SET', 'lua-time-limit', before);
    for (const admin of [runner, killer]) admin.disconnect();
  };
}

/** Checks that PING on a new connection is answered with this: `PONG`, the text of an error, or `no answer …`. */
async function expectPing(server: RedisServer, wanted: RegExp, timeoutMs?: number): Promise<void> {
  const address = { host: server.host, port: server.port };
  const asked = respRequest({ address }, ['PING'], timeoutMs);
  const answer = await asked.catch((error: Error) => error.message);
  if (!wanted.test(answer)) throw new Error(`PING is answered with ${answer}`);
}

async function snapshotFile(admin: Redis): Promise<string> {
  return join(await settingOf(admin, 'dir'), await settingOf(admin, 'dbfilename'));
}

/** Resolves when a snapshot has been tried and ended like this. */
async function snapshot(admin: Redis, wanted: 'ok' | 'err'): Promise<void> {
  await admin.bgsave('SCHEDULE');
  await eventually(async () => {
    const info = await admin.info('persistence');
    const isDone = info.includes('rdb_bgsave_in_progress:0');
    if (!isDone || !info.includes(`rdb_last_bgsave_status:${wanted}`))
      throw new Error(`the last snapshot did not end with ${wanted}`);
  });
}

async function settingOf(admin: Redis, name: string): Promise<string> {
  return ((await admin.config('GET', name)) as string[])[1]!;
}

/** A connection of its own, which never reconnects, and takes answers of a server that is loading its data as they are. */
async function openAdmin(server: RedisServer): Promise<Redis> {
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
  // An error also rejects every command that waits.
  admin.on('error', () => undefined);
  await admin.connect();
  return admin;
}

export async function withAdmin(server: RedisServer, work: Change): Promise<void> {
  const admin = await openAdmin(server);
  try {
    await work(admin);
  } finally {
    admin.disconnect();
  }
}
