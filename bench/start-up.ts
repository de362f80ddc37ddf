import { Redis } from 'ioredis';
import { median } from './measure.ts';
import type { ProgressOf } from './progress.ts';
import { openRedlock } from './redlock-contestant.ts';
import type { Result } from './report.ts';

const ROUNDS = 15;
const BAR_MS = 50;

/** Delay until locks can be had, beyond that until as many clients are connected. */
export async function startUp(urls: readonly string[], progressOf: ProgressOf): Promise<Result[]> {
  const scenario = `start, N=${urls.length}`;
  const progress = progressOf(scenario);
  const plain: number[] = [];
  const ours: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    let startedAtMs = performance.now();
    const clients = urls.map((url) => new Redis(url));
    await Promise.all(clients.map((client) => client.ping()));
    plain.push(performance.now() - startedAtMs);
    for (const client of clients) client.disconnect();
    startedAtMs = performance.now();
    const redlock = await openRedlock(urls);
    ours.push(performance.now() - startedAtMs);
    await redlock.close();
    progress((round + 1) / ROUNDS);
  }
  const result = { scenario, unit: 'ms' } as const;
  return [
    { ...result, contestant: 'connected clients', value: median(plain) },
    {
      ...result,
      contestant: 'more until a quorum has joined',
      value: median(ours) - median(plain),
      bar: BAR_MS,
    },
  ];
}
