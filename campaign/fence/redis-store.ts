import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { redisFence } from '../../lib/fencing/index.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import { START, type CommittedWrite } from './commit-order.ts';
import { EXPIRE } from '../../test/fencing/support/forget.ts';
import type { Holder } from './holders.ts';
import type { Record } from './record.ts';
import type { StressedStore } from './store.ts';

const WORKERS = 32;
const JOURNAL = 'journal';

/** It is judged by a list to which each write adds itself, in the same script. */
export async function redisStore(record: Record): Promise<StressedStore> {
  const [server] = await startRedisServers(1, { appendonly: true, own: true });
  const redis = new Redis(server!.url, { retryStrategy: () => 20, maxRetriesPerRequest: null });
  redis.on('error', () => undefined);
  const fence = redisFence(redis, record.options);
  const read = async (resource: string): Promise<string> =>
    (await redis.get(`data:${resource}`)) ?? START;
  const commands = (holder: Holder, writer: string, readFrom: string) =>
    [
      ['SET', `data:${holder.resource}`, writer],
      ['RPUSH', JOURNAL, [holder.resource, writer, holder.token.value, readFrom].join(' ')],
    ] as const;
  return {
    workers: WORKERS,
    async right(holder) {
      const { resource, token } = holder;
      await fence.claim(token);
      await holder.nap();
      let known = await read(resource);
      for (let count = 0; count < holder.writes; count += 1) {
        await holder.nap();
        const writer = randomUUID();
        await fence.write(token, commands(holder, writer, known));
        record.acknowledged.add(writer);
        known = writer;
      }
    },
    wrong: {
      async noFence(holder) {
        const known = await read(holder.resource);
        await holder.nap();
        const write = redis.multi();
        for (const [name, ...rest] of commands(holder, randomUUID(), known))
          write.call(name, ...rest);
        await write.exec();
      },
    },
    prune: async (before) => Number(await redis.eval(EXPIRE, 0, before)),
    async crash() {
      await server!.kill();
      await sleep(50);
      await server!.restart({ keepData: true });
    },
    async history() {
      const lines = await redis.lrange(JOURNAL, 0, -1);
      const last = new Map<string, string>();
      return lines.flatMap((line): CommittedWrite[] => {
        const [resource, writer, token, readFrom] = line.split(' ') as [
          string,
          string,
          string,
          string,
        ];
        // A client that lost its connection before the answer sends a write again, as documented.
        if (last.get(resource) === writer) return [];
        last.set(resource, writer);
        return [{ resource, writer, token: BigInt(token), readFrom }];
      });
    },
    async close() {
      redis.disconnect();
      await server!.stop();
    },
  };
}
