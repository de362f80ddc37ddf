import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import type { Cluster, LockProcess } from '../unit/core/support/cluster.ts';
import { Draw, outcomeOf, sleepIn } from './support.ts';
import type { Outcome } from './support.ts';

const newCluster = clusterFactory();
/** 500 callers each: 10,000 in all in `npm run test:stress`, a tenth of it in `npm test`. */
const RUNS = Number(process.env.WAIT_BUDGET_RUNS ?? 2);
const CALLERS = 500;
const RUN_MS = 20_000;
const TTL_MS = 1_000;
/** What follows from the ttl. */
const NODE_TIMEOUT_MS = 100;
const LATE_MS = 20;
const TICK_MS = 5;
const WAITS = [0, 0, 5, 30, 90, 100, 110, 300, 700, 1_000, 1_050, 2_500];
const KEYS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];

interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}
interface Hold extends Span {
  readonly keys: readonly string[];
}
interface Call extends Hold {
  readonly process: number;
  readonly waitMs: number;
  readonly abortMs: number | undefined;
  readonly outcome: Outcome;
}

/** What happened in one run: what callers were answered, and what really was. */
interface Story {
  readonly calls: Call[];
  /** From the grant to the release. */
  readonly holds: Hold[];
  /** By process: the ticks at which it could reach no quorum. */
  readonly outages: Set<number>[];
}

const tickOf = (ms: number) => Math.floor(ms / TICK_MS);
const overlaps = (a: Span, fromMs: number, untilMs: number) =>
  a.fromMs <= untilMs && fromMs <= a.untilMs;

/** Whether `process` could reach no quorum at some tick, or at every tick, of this time. */
function outage({ outages }: Story, process: number, which: 'some' | 'every', time: Span): boolean {
  for (let tick = tickOf(time.fromMs); tick <= tickOf(time.untilMs); tick += 1)
    if (outages[process]!.has(tick) === (which === 'some')) return which === 'some';
  return which === 'every';
}

/** Freezes and kills servers, a majority or a minority, and repairs them. */
async function strike(cluster: Cluster, draw: Draw, diedAtMs: number[], untilMs: number) {
  while (cluster.nowMs < untilMs) {
    await sleepIn(cluster, 300 + draw.below(2_500));
    const size = cluster.servers.length;
    const hit = draw
      .some([...cluster.servers.keys()].map(String), 1 + draw.below(size))
      .map(Number);
    const kills = draw.chance(0.5);
    for (const index of hit) {
      if (kills) cluster.servers[index]!.kill();
      else cluster.servers[index]!.freeze();
    }
    await sleepIn(cluster, 50 + draw.below(3_000));
    for (const index of hit) {
      if (kills) {
        diedAtMs[index] = cluster.nowMs;
        cluster.servers[index]!.restart({ keepData: true });
      } else cluster.servers[index]!.resume();
    }
  }
}

async function call(
  cluster: Cluster,
  draw: Draw,
  { redlock }: LockProcess,
  process: number,
  story: Story,
): Promise<void> {
  await sleepIn(cluster, draw.below(RUN_MS));
  const keys = draw.some(KEYS, draw.chance(0.65) ? 1 : 2 + draw.below(2));
  const wait = draw.one(WAITS);
  const abortMs = draw.chance(0.1) ? draw.below(wait + NODE_TIMEOUT_MS) : undefined;
  const holdMs = draw.below(300);
  const abort = new AbortController();
  if (abortMs !== undefined) void sleepIn(cluster, abortMs).then(() => abort.abort('aborted'));
  const fromMs = cluster.nowMs;
  const acquired = redlock.acquire(keys, { wait, signal: abort.signal });
  const outcome = await outcomeOf(acquired, () => cluster.nowMs);
  const endMs = cluster.nowMs;
  story.calls.push({ process, keys, waitMs: wait, abortMs, outcome, fromMs, untilMs: endMs });
  if (outcome.code !== 'granted') return;
  await sleepIn(cluster, holdMs);
  await (await acquired).release();
  story.holds.push({ keys, fromMs: endMs, untilMs: cluster.nowMs });
}

async function tell(cluster: Cluster): Promise<Story> {
  const draw = new Draw(cluster);
  const story: Story = { calls: [], holds: [], outages: [new Set(), new Set()] };
  const diedAtMs = cluster.servers.map(() => 0);
  const joinedAtMs = story.outages.map(() => new Map<string, number>());
  const processes = await Promise.all(
    joinedAtMs.map((joined) =>
      cluster.process({
        ttl: TTL_MS,
        onEvent: (event) => {
          if (event.type === 'node-joined') joined.set(event.address, cluster.nowMs);
        },
      }),
    ),
  );
  for (const { nodes } of processes) for (const node of nodes) node.latencyMs = 1 + draw.below(8);
  const untilMs = cluster.nowMs + RUN_MS;
  const callers = Array.from({ length: CALLERS }, (_, index) =>
    call(cluster, draw, processes[index % 2]!, index % 2, story),
  );
  void strike(cluster, draw, diedAtMs, untilMs - 3_500);
  let open = callers.length;
  for (const caller of callers) void caller.then(() => (open -= 1));
  while (open > 0) {
    await cluster.advance(TICK_MS);
    for (const [process, outages] of story.outages.entries()) {
      const votes = cluster.servers.filter(
        ({ running, frozen }, index) =>
          running &&
          !frozen &&
          diedAtMs[index]! <= (joinedAtMs[process]!.get(`node${index}:6379`) ?? 0),
      );
      if (2 * votes.length <= cluster.servers.length) outages.add(tickOf(cluster.nowMs));
    }
  }
  return story;
}

/** What is wrong with the answer that a caller got, judged against what the nodes really were. */
function wrong(story: Story, call: Call): string | undefined {
  const { process, keys, outcome, waitMs, abortMs, fromMs, untilMs } = call;
  const { code, tookMs } = outcome;
  const budgetMs = Math.min(Math.max(waitMs, NODE_TIMEOUT_MS), abortMs ?? Number.POSITIVE_INFINITY);
  if (tookMs > budgetMs + LATE_MS) return `took ${Math.round(tookMs)} ms of ${budgetMs}`;
  if (code !== 'granted' && abortMs === undefined && tookMs < waitMs - NODE_TIMEOUT_MS)
    return `gave up after ${Math.round(tookMs)} ms of ${waitMs}`;
  const held = (from: number) =>
    story.holds.some(
      (hold) => overlaps(hold, from, untilMs) && hold.keys.some((key) => keys.includes(key)),
    );
  // An outcome that another caller found counts for two node timeouts.
  const knownMs = 2 * NODE_TIMEOUT_MS + LATE_MS;
  if (code === 'LOCK_BUSY') {
    const time = { fromMs: fromMs - knownMs, untilMs };
    // A server that did not receive a release keeps the key for up to a ttl.
    return outage(story, process, 'every', time) && !held(time.fromMs - TTL_MS)
      ? 'outage reported as busy'
      : undefined;
  }
  if (code === 'QUORUM_UNAVAILABLE') {
    const time = { fromMs: Math.min(fromMs, untilMs - knownMs) - NODE_TIMEOUT_MS, untilMs };
    return outage(story, process, 'some', time) ? undefined : 'busy reported as outage';
  }
  return code === 'granted' || (code === 'aborted' && abortMs !== undefined) ? undefined : code;
}

describe('10,000 random callers next to freezing and dying servers', () => {
  it('end within max(wait, node timeout) + 20 ms, and are refused for the true reason: busy or an outage', async () => {
    const faults: string[] = [];
    const codes = new Map<string, number>();
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const story = await tell(await newCluster(seed % 3 === 0 ? 5 : 3, seed));
      for (const call of story.calls) {
        codes.set(call.outcome.code, (codes.get(call.outcome.code) ?? 0) + 1);
        const fault = wrong(story, call);
        if (fault === undefined) continue;
        const { keys, waitMs, fromMs } = call;
        faults.push(
          `seed ${seed}: [${keys.join()}] wait ${waitMs} at ${Math.round(fromMs)}: ${fault}`,
        );
      }
    }
    for (const code of ['granted', 'LOCK_BUSY', 'QUORUM_UNAVAILABLE', 'aborted'])
      expect([code, codes.get(code)! > 5 * RUNS]).toEqual([code, true]);
    expect([faults.length, ...faults.slice(0, 5)]).toEqual([0]);
  }, 120_000);
});
