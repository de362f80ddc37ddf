import type { Lock } from '../../../lib/core/lock.ts';
import type { Chance } from '../world/chance.ts';
import type { ClientProcess } from '../world/client-process.ts';
import { broke } from '../world/run-context.ts';
import type { RunContext } from '../world/run-context.ts';
import type { SimulatedServer } from '../world/simulated-server.ts';
import { Stage } from '../world/stage.ts';

const ROUNDS = 8;
/** A try takes less; a call that waits for nodes that were cut off would miss the instant. */
const PATIENCE_MS = 0.1;
/** The rival begins to ask so long before the key may be given away again; it must have it so long after. */
const BEFORE_MS = 0.3;
const AFTER_MS = 5;
/** Connecting, joining, and repeating releases. */
const SETTLING_MS = 60;
/** Around the end of its validity the holder's event loop is busy: it believes as long as its clock allows. */
const BUSY_BEFORE_MS = 6;
const BUSY_MS = 8;

/** The parts in one round. Both clients reach a majority, and only `common` is in both. */
interface Round {
  readonly stage: Stage;
  readonly chance: Chance;
  readonly holder: number;
  readonly rival: number;
  readonly common: SimulatedServer;
  /** Nodes that the holder reaches. */
  readonly reached: readonly number[];
  /** The holder's clock is ahead by as much as it may, and the rival's so far behind that it proposes the same token. */
  readonly clocksDiffer: boolean;
}

/**
 * Plays a client that holds the key until its validity ends, and another one that wants it. Nothing but their common node
 * keeps them apart. That node forgets the key right after its vote, or it doesn't, and the rival asks at the very instant
 * at which it may vote for others again.
 */
export async function playBoundary(run: RunContext, clients: ClientProcess[]): Promise<void> {
  const stage = new Stage(run, clients);
  const chance = run.chance.branch('boundary');
  const restMs = 2 * run.plan.maxTtlMs + SETTLING_MS;
  for (const client of clients) client.calm();
  await stage.advance(restMs);
  for (let round = 0; round < ROUNDS; round += 1) {
    const nodes = chance.shuffled(stage.servers.keys());
    const [holder, rival] = chance.shuffled([0, 1]) as [number, number];
    const { quorum } = run.plan;
    stage.part(holder, nodes.slice(quorum));
    stage.part(rival, nodes.slice(1, quorum));
    await play({
      stage,
      chance,
      holder,
      rival,
      common: stage.servers[nodes[0]!]!,
      reached: nodes.slice(0, quorum),
      clocksDiffer: chance.happens(0.3),
    });
    stage.mend(holder, nodes.slice(quorum));
    stage.mend(rival, nodes.slice(1, quorum));
    await stage.advance(restMs);
  }
}

async function play(round: Round): Promise<void> {
  const { stage, chance, holder, rival, common, clocksDiffer } = round;
  common.saveDump();
  const lock = await hold(round);
  const client = stage.clients[holder]!;
  const endsAtMs = client.record.locks.get(lock.token.holder)?.validUntilMs ?? stage.nowMs;
  stage.run.world.at(endsAtMs - BUSY_BEFORE_MS, () => client.process.stall(BUSY_MS));
  const forgets = clocksDiffer || chance.happens(0.5);
  const early = forgets ? await forget(round) : undefined;
  const taken =
    early ?? (await takeAt(round, forgets ? votesAtMs(common) : expiresAtMs(common), lock));
  if (taken) await stage.release(rival, taken);
  else broke(stage.run, 'no-progress', `nobody got the key although ${common.name} was free again`);
  await stage.release(holder, lock);
}

/** Acquires, and perhaps extends once. Answers may take their time, which must not count as validity. */
async function hold({
  stage,
  chance,
  holder,
  common,
  reached,
  clocksDiffer,
}: Round): Promise<Lock> {
  const { ttlMs, maxTtlMs } = stage.run.plan;
  // Half a guard, less the part of a millisecond that a node drops when it is joined.
  const aheadMs = clocksDiffer ? maxTtlMs / 2 - 1.05 : 0;
  stage.clients[holder]!.process.setWallClock(common.wallMs + aheadMs);
  // Clock of the node would catch up in the time that passes before it forgets.
  const answerMs = clocksDiffer ? 0 : chance.pick([0, 0, 5, 15]);
  const extendsOnce = !clocksDiffer && chance.happens(0.5);
  const delayAnswers = (): void => {
    for (const node of reached) {
      const { path } = stage.clients[holder]!.nodes[node]!.ends;
      path.hold('replies');
      stage.run.world.after(answerMs, () => path.pass('replies'));
    }
  };
  delayAnswers();
  const lock = await stage.acquire(holder);
  if (lock === undefined) throw new Error('A free key could not be had.');
  if (extendsOnce) {
    await stage.advance(ttlMs * chance.between(0.1, 0.5));
    delayAnswers();
    await stage.do(holder, () => lock.extend());
  }
  return lock;
}

/** The common node forgets the key, and the rival joins it at once. Returns what the rival got there, which it must not. */
async function forget({ stage, chance, rival, common }: Round): Promise<Lock | undefined> {
  const how = chance.pick(['flush', 'empty', 'older'] as const);
  stage.run.trace.add('***', `${common.name} forgets: ${how}`);
  if (how === 'flush') common.redis.data.clear();
  else {
    common.kill();
    common.restart(how);
    // Until a connection was made again, and the server was joined on it.
    const { world } = stage.run;
    await world.runWhile(() => common.marker?.reign !== common.redis.reign, stage.nowMs + 200);
  }
  return stage.acquire(rival);
}

/** When a node that forgot may vote, true time. */
function votesAtMs(server: SimulatedServer): number {
  return server.whenItShows(server.marker?.voteAfterMs ?? 0);
}

/** When a node that did not forget has no holder any more, true time. */
function expiresAtMs(server: SimulatedServer): number {
  const { data } = server.redis;
  const lifeMs = Math.max(0, ...server.lockNames().map((name) => data.call('PTTL', name)));
  // A key lives through the last millisecond of its ttl.
  return server.whenItShows(Math.floor(server.wallMs) + lifeMs + 1);
}

/** The rival asks again and again around this instant. */
async function takeAt(
  { stage, rival, clocksDiffer }: Round,
  atMs: number,
  { token }: Lock,
): Promise<Lock | undefined> {
  await stage.run.world.runUntil(atMs - BEFORE_MS);
  if (clocksDiffer) stage.clients[rival]!.process.setWallClock(token.value / 1000 - BEFORE_MS);
  let lock: Lock | undefined;
  while (lock === undefined && stage.nowMs < atMs + AFTER_MS)
    lock = await stage.acquire(rival, 0, PATIENCE_MS);
  // Callers that gave up so soon may have waited for others to go first; one that stays has the key.
  return lock ?? stage.acquire(rival, stage.run.plan.ttlMs);
}
