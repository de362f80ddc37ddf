import { mkdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { eventually } from '../../support/eventually.ts';
import { type ErrorCondition, errorCondition } from './error-condition.ts';
import { loadingCondition } from './loading-condition.ts';
import { busyCondition, pauseCondition, slowScriptCondition } from './script-conditions.ts';
import { infoField, openAdmin, settingOf, withAdmin } from './server-admin.ts';

export type { EndCondition, ErrorCondition } from './error-condition.ts';

/** Durations of the conditions that end by themselves. */
export interface ConditionDurations {
  readonly silentMs: number;
  /** Duration of loading, at most 20 s. */
  readonly loadingMs: number;
}

/**
 * States of a real server, all of them, that answer ACQUIRE with an error of its own, with silence, or with the loss of
 * something.
 *
 * Left out: eviction, since a server that evicts locks breaks an assumption of the protocol; errors of Redis Cluster and
 * Sentinel, which are no lock nodes.
 */
export function errorConditions({
  silentMs = 2_000,
  loadingMs = 10_000,
}: Partial<ConditionDurations> = {}): readonly ErrorCondition[] {
  return [
    ...REFUSED_WRITES,
    ...REFUSED_USERS,
    busyCondition,
    loadingCondition(loadingMs),
    slowScriptCondition(silentMs),
    pauseCondition('ALL', silentMs),
    pauseCondition('WRITE', silentMs),
    ...MOMENTARY,
  ];
}

/** A condition that two sets of commands begin and end. */
function switched(
  name: string,
  begin: (admin: Redis) => Promise<unknown>,
  end: (admin: Redis) => Promise<unknown>,
): ErrorCondition {
  // Clients leave a server that is no primary, and its guard begins again when it is one.
  const rejoins = /READONLY|MASTERDOWN/.test(name);
  return errorCondition(
    { name, kind: 'refuses', rejoins, beginsGuard: rejoins },
    async (server) => {
      await withAdmin(server, begin);
      return async () => {
        await withAdmin(server, end);
      };
    },
  );
}

/** A master at which nobody listens: it would replace the data of its replica. */
const NO_MASTER = ['127.0.0.1', '1'] as const;

const REFUSED_WRITES: readonly ErrorCondition[] = [
  switched(
    'OOM',
    (admin) => admin.config('SET', 'maxmemory', '1'),
    (admin) => admin.config('SET', 'maxmemory', '0'),
  ),
  switched(
    'READONLY as a replica',
    (admin) => admin.replicaof(...NO_MASTER),
    (admin) => admin.replicaof('NO', 'ONE'),
  ),
  switched(
    'MASTERDOWN as a replica that serves no stale data',
    async (admin) => {
      await admin.config('SET', 'replica-serve-stale-data', 'no');
      await admin.replicaof(...NO_MASTER);
    },
    async (admin) => {
      await admin.replicaof('NO', 'ONE');
      await admin.config('SET', 'replica-serve-stale-data', 'yes');
    },
  ),
  switched(
    'NOREPLICAS',
    (admin) => admin.config('SET', 'min-replicas-to-write', '1'),
    (admin) => admin.config('SET', 'min-replicas-to-write', '0'),
  ),
  // A folder in the place of its file: root may write everywhere else.
  switched(
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
  ),
];

async function snapshotFile(admin: Redis): Promise<string> {
  return join(await settingOf(admin, 'dir'), await settingOf(admin, 'dbfilename'));
}

/** Resolves when a snapshot has been tried and ended like this. */
async function snapshot(admin: Redis, wanted: 'ok' | 'err'): Promise<void> {
  // Later, where the append-only file is being rewritten.
  await admin.bgsave('SCHEDULE');
  await eventually(async () => {
    const status = await infoField(admin, 'rdb_last_bgsave_status');
    const isRunning = (await infoField(admin, 'rdb_bgsave_in_progress')) !== '0';
    if (isRunning || status !== wanted) throw new Error(`the last snapshot ended with ${status}`);
  });
}

/** Rights of the default user of a server that was started without an ACL. */
const ALL_RIGHTS = ['+@all', '~*', '&*'];
const PASSWORD = 'set-meanwhile';

const REFUSED_USERS: readonly ErrorCondition[] = [
  ...(
    [
      ['to scripts', '-@scripting'],
      ['to the keys', 'resetkeys'],
      ['to a command of the script', '-set'],
    ] as const
  ).map(([right, rule]) =>
    switched(
      `no right ${right}`,
      (admin) => admin.call('ACL', 'SETUSER', 'default', rule),
      (admin) => admin.call('ACL', 'SETUSER', 'default', ...ALL_RIGHTS),
    ),
  ),
  {
    isOffline: true,
    ...switched(
      'NOAUTH after a password was set',
      async (admin) => {
        await admin.config('SET', 'requirepass', PASSWORD);
        await killClients(admin);
      },
      async (admin) => {
        await admin.auth(PASSWORD);
        await admin.config('SET', 'requirepass', '');
      },
    ),
  },
  // Connection of the condition is the only one; no other could end it.
  errorCondition(
    {
      name: 'too many clients',
      kind: 'refuses',
      isOffline: true,
    },
    async (server) => {
      const admin = await openAdmin(server);
      const before = await settingOf(admin, 'maxclients');
      await admin.config('SET', 'maxclients', '1');
      await killClients(admin);
      return async () => {
        try {
          await admin.config('SET', 'maxclients', before);
        } finally {
          admin.disconnect();
        }
      };
    },
  ),
];

/** Closes all connections but this one. */
async function killClients(admin: Redis): Promise<void> {
  for (const type of ['normal', 'pubsub']) {
    await admin.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes');
  }
}

const MOMENTARY: readonly ErrorCondition[] = [
  { ...once('all clients disconnected', killClients), isOffline: true },
  {
    ...once('NOSCRIPT after SCRIPT FLUSH', (admin) => admin.call('SCRIPT', 'FLUSH', 'SYNC')),
    rejoins: true,
  },
  { ...once('FLUSHALL', (admin) => admin.flushall()), forgets: true },
];

function once(name: string, happen: (admin: Redis) => Promise<unknown>): ErrorCondition {
  return errorCondition({ name, kind: 'momentary' }, async (server) => {
    await withAdmin(server, happen);
    return () => Promise.resolve();
  });
}
