import { getHeapSpaceStatistics } from 'node:v8';
import { Redlock } from '../../lib/core/redlock.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';

/**
 * Prints how many bytes of garbage each lock leaves in the old part of the heap, where only a full collection finds them.
 * Arguments: how many callers begin at once, addresses of servers.
 */
const LOCKS = 40_000;
const WAITING = Object.freeze({ wait: '1m' });
const [callers, ...urls] = process.argv.slice(2);

const nodes = urls.map((url) => new RedisLockNode(url));
const redlock = new Redlock(nodes, { restartGuard: false });
redlock.open();
await redlock.ready(10_000);

let next = 0;
async function lockUntil(end: number): Promise<void> {
  const call = async () => {
    while (next < end) {
      const lock = await redlock.acquire(`job:${(next += 1)}`, WAITING);
      await lock.release();
    }
  };
  await Promise.all(Array.from({ length: Number(callers) }, call));
}

function oldBytes(): number {
  const spaces = getHeapSpaceStatistics();
  return spaces.find(({ space_name: name }) => name === 'old_space')!.space_used_size;
}

await lockUntil(LOCKS / 4);
// What is in use is old from here on.
globalThis.gc!();
globalThis.gc!();
const before = oldBytes();
await lockUntil(LOCKS / 4 + LOCKS);
process.stdout.write(`${Math.round((oldBytes() - before) / LOCKS)}\n`);
await redlock.close();
