import { setTimeout as sleep } from 'node:timers/promises';
import { countsBetween } from '../test/support/redis-servers/server-counters.ts';
import type { Lock } from '../lib/core/lock.ts';
import { TTL_MS } from './contestant.ts';
import { connectContestant, WITH_LOCK } from './lock-contestants.ts';
import { countersOf } from './operation-costs.ts';
import { peerNames } from './peers.ts';
import type { ProgressOf } from './progress.ts';
import { openRedlock } from './redlock-contestant.ts';
import type { Result } from './report.ts';

const BATCH = 100;
const HELD_BAR_BYTES = 500;
const EXTENDED_BAR_BYTES = 1_000;
const WAITER_BAR_BYTES = 1_500;

/** Bytes of heap of a lock that is held, alone and kept extended, and of a caller that waits for one. */
export async function heapOfLocks(
  urls: readonly string[],
  count: number,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const progress = progressOf(`heap of ${count} held locks and waiting callers`);
  const plain = await heapOf(urls, count, false, (share) => progress(share / 2));
  const extended = await heapOf(urls, count, true, (share) => progress((1 + share) / 2));
  const scenario = `heap, N=${urls.length}, ${count} of each`;
  const each = (contestant: string, bytes: number, bar: number): Result => ({
    scenario,
    contestant,
    value: bytes / count,
    unit: 'B',
    bar,
  });
  return [
    each('held lock, not extended', plain.held, HELD_BAR_BYTES),
    each('held lock, kept extended', extended.held, EXTENDED_BAR_BYTES),
    each('waiting caller', extended.waiting, WAITER_BAR_BYTES),
  ];
}

async function heapOf(
  urls: readonly string[],
  count: number,
  extend: boolean,
  progress: (share: number) => void,
): Promise<{ held: number; waiting: number }> {
  // Long enough that no extension falls into the measurement.
  const redlock = await openRedlock(urls, { ttl: '5m', wait: '1h', extend });
  const keys = Array.from({ length: count }, (_, index) => `held:${index}`);
  for (const key of keys.slice(0, BATCH)) await (await redlock.acquire(key)).release();
  const locks: Lock[] = [];
  const before = await settledHeap();
  for (let start = 0; start < count; start += BATCH) {
    const batch = keys.slice(start, start + BATCH).map((key) => redlock.acquire(key));
    locks.push(...(await Promise.all(batch)));
    progress((start + BATCH) / count / 3);
  }
  const held = await settledHeap();
  const callers = keys.map(() => redlock.acquire('held:0').catch(() => undefined));
  const withCallers = await settledHeap();
  progress(0.7);
  for (let start = 0; start < count; start += BATCH)
    await Promise.all(locks.slice(start, start + BATCH).map((lock) => lock.release()));
  await redlock.close();
  for (const lock of await Promise.all(callers)) await lock?.release();
  progress(1);
  return { held: held - before, waiting: withCallers - held };
}

/** Heap after everything that is only on its way has gone. */
async function settledHeap(): Promise<number> {
  const collect = globalThis.gc;
  if (!collect) throw new Error('Run node with --expose-gc.');
  for (let pass = 0; pass < 4; pass += 1) {
    await sleep(50);
    // Arguments are left out: with options, node 20 leaves much of the garbage.
    collect();
  }
  return process.memoryUsage().heapUsed;
}

/** Cost of the extension of held locks: scripts that reach the servers in one ttl, and processor time. */
export async function extensionCosts(
  urls: readonly string[],
  count: number,
  progressOf: ProgressOf,
): Promise<Result[]> {
  const scenario = `${count} held locks for ${TTL_MS / 1_000} s, N=${urls.length}`;
  const progress = progressOf(scenario);
  // A library that sends each by itself needs a while for 10,000 locks before the first is due again.
  const names = [WITH_LOCK, ...(count <= 1_000 ? peerNames(urls.length) : [])];
  const extending = names.filter((name) => !name.startsWith('@microfleet'));
  const results: Result[] = [];
  for (const [index, contestant] of extending.entries()) {
    const lock = await connectContestant(contestant, urls);
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    let held = 0;
    let lost = 0;
    const sections: Promise<unknown>[] = [];
    for (let at = 0; at < count; at += 1) {
      const section = lock.hold(`kept:${contestant}:${at}`, () => ((held += 1), released));
      sections.push(section.catch(() => (lost += 1)));
      if (at % BATCH === BATCH - 1) await sleep(5);
    }
    while (held + lost < count) await sleep(10);
    const servers = countersOf(urls);
    const before = await Promise.all(servers.map((server) => server.read()));
    const cpu = process.cpuUsage();
    await sleep(TTL_MS);
    const { user, system } = process.cpuUsage(cpu);
    const counts = countsBetween(before, await Promise.all(servers.map((server) => server.read())));
    release();
    await Promise.all(sections);
    await lock.close();
    progress((index + 1) / extending.length);
    results.push({
      scenario,
      contestant,
      value: counts.messages,
      unit: 'messages',
      clientCpu: (user + system) / count,
      serverCpu: counts.cpuMicros / count,
      calls: (counts.calls + counts.messages) / count,
      ...(lost > 0 && { note: `${lost} calls failed` }),
    });
  }
  return results;
}
