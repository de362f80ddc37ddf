import { setTimeout as sleep } from 'node:timers/promises';
import { connectContestant } from './lock-contestants.ts';

// Process of several whose callers want one key. The parent says how, and when to begin.

const WARM_UP_CYCLES = 1_000;

/** Order that the parent sends. */
export interface ContentionOrder {
  readonly contestant: string;
  readonly urls: readonly string[];
  readonly key: string;
  readonly callers: number;
  readonly holdMs: number;
  /** Time for which all ask again and again. Otherwise each asks until it had the key once. */
  readonly forMs?: number;
}

/** Answer that the parent gets back. */
export interface ContentionAnswer {
  /** Wait of each caller, ms. */
  readonly waits: readonly number[];
  /** Number of times that each had the key. */
  readonly grants: readonly number[];
  /** Number of times that a call gave up and was made again. */
  readonly gaveUp: number;
  /** Processor time, microseconds. */
  readonly cpu: number;
  /** Number of times that a caller came in while another one of this process was in. */
  readonly overlaps: number;
}

process.on('disconnect', () => process.exit());
const order = JSON.parse(process.argv[2]!) as ContentionOrder;
const contestant = await connectContestant(order.contestant, order.urls);
// Compilation while it contends would be most of what is measured.
for (let cycle = 0; cycle < WARM_UP_CYCLES; cycle += 1)
  await contestant.cycle(`warm-up:${process.pid}:${cycle}`);
process.once('message', () => void run().then((answer) => process.send!(answer)));
process.send!('ready');

async function run(): Promise<ContentionAnswer> {
  const { key, callers, holdMs, forMs = 0 } = order;
  const cpu = process.cpuUsage();
  const startedAtMs = performance.now();
  const waits: number[] = [];
  const grants = Array.from({ length: callers }, () => 0);
  const isLeft = (index: number) =>
    forMs === 0 ? grants[index] === 0 : performance.now() - startedAtMs < forMs;
  let [gaveUp, inside, overlaps] = [0, 0, 0];
  const caller = async (_: unknown, index: number): Promise<void> => {
    const work = async (): Promise<void> => {
      grants[index]! += 1;
      inside += 1;
      if (inside > 1) overlaps += 1;
      waits.push(performance.now() - startedAtMs);
      await sleep(holdMs);
      inside -= 1;
    };
    while (isLeft(index)) await contestant.hold(key, work).catch(() => (gaveUp += 1));
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const { user, system } = process.cpuUsage(cpu);
  return { waits, grants, gaveUp, cpu: user + system, overlaps };
}
