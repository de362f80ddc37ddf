import type { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '../../support/eventually.ts';
import type { RedisServer } from '../../support/redis-servers/index.ts';
import { type ErrorCondition, errorCondition } from './error-condition.ts';
import { infoField, openAdmin, pingAnswer, settingOf, withAdmin } from './server-admin.ts';

const FILLER_KEYS = 200;
/** More than what is read between two looks at the connections. */
const FILLER_BYTES = 4_096;

/**
 * The server is restarted with its data, from its append-only file where it has one and else from a snapshot made now,
 * and takes `loadingMs` (20 s at most) to load it; `end` shortens that.
 */
export function loadingCondition(loadingMs: number): ErrorCondition {
  return errorCondition(
    {
      name: 'LOADING after a restart',
      kind: 'refuses',
      beginsGuard: true,
      isOffline: true,
    },
    async (server) => {
      const prefix = `filler:${randomBytes(8).toString('hex')}:`;
      const snapshot = await withAdmin(server, async (admin) => {
        await addFiller(admin, prefix);
        return persist(admin);
      });
      const restarted = server.restart({
        keepData: true,
        args: [
          '--key-load-delay',
          String(Math.round((loadingMs * 1000) / FILLER_KEYS)),
          '--loading-process-events-interval-bytes',
          '1024',
        ],
      });
      const tooQuick = restarted.then(() => {
        throw new Error(`the server on port ${server.port} was not seen loading`);
      });
      tooQuick.catch(() => undefined);
      await Promise.race([tooQuick, eventually(() => expectLoading(server))]);
      return async () => {
        await hasten(server);
        await restarted;
        await withAdmin(server, (admin) => removeFiller(admin, prefix));
        if (snapshot !== undefined) await rm(snapshot);
      };
    },
  );
}

async function addFiller(admin: Redis, prefix: string): Promise<void> {
  const pipeline = admin.pipeline();
  // Random, so that it is not compressed.
  const value = randomBytes(FILLER_BYTES).toString('latin1');
  for (let index = 0; index < FILLER_KEYS; index += 1) pipeline.set(`${prefix}${index}`, value);
  await pipeline.exec();
}

async function removeFiller(admin: Redis, prefix: string): Promise<void> {
  await admin.unlink(...Array.from({ length: FILLER_KEYS }, (_, index) => `${prefix}${index}`));
}

/** Resolves when all data is on the disk in the form that is loaded slowly, with the snapshot if one was made for this. */
async function persist(admin: Redis): Promise<string | undefined> {
  if ((await settingOf(admin, 'appendonly')) === 'no') {
    await admin.save();
    return join(await settingOf(admin, 'dir'), await settingOf(admin, 'dbfilename'));
  }
  await admin.bgrewriteaof();
  await eventually(async () => {
    const running = await Promise.all([
      infoField(admin, 'aof_rewrite_in_progress'),
      infoField(admin, 'aof_rewrite_scheduled'),
    ]);
    if (running.join() !== '0,0') throw new Error('the append-only file is being rewritten');
  });
  const status = await infoField(admin, 'aof_last_bgrewrite_status');
  if (status !== 'ok') throw new Error(`BGREWRITEAOF ended with ${status}`);
  return undefined;
}

async function expectLoading(server: RedisServer): Promise<void> {
  const answer = await pingAnswer(server);
  if (!answer.startsWith('LOADING')) throw new Error(`PING is answered with ${answer}`);
}

/** The rest is loaded without delay. */
async function hasten(server: RedisServer): Promise<void> {
  const admin = await openAdmin(server);
  try {
    await admin.config('SET', 'key-load-delay', 0);
  } finally {
    admin.disconnect();
  }
}
