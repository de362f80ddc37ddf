import { withAdmin, type ErrorCondition } from './conditions.ts';
import { findLeakedKeys } from './run-schedule.ts';
import type { Script } from './schedule.ts';
import { TTL_MS, type Stage } from './stage.ts';
import type { ConnectionKind, LinkMode } from '../../test/support/link.ts';
import type { WorkerProcess } from './worker/worker-process.ts';

// The words in which schedules are written.

/** The harm to some servers, or to a worker. */
export type Harm<Target> = (stage: Stage, target: Target) => Promise<void>;
export type ServerHarm = Harm<readonly number[]>;
/** A time in ms, or the bounds between which it is drawn. */
export type Duration = number | readonly [number, number];

const drawn = ({ random }: Stage, duration: Duration): number =>
  typeof duration === 'number' ? duration : random.between(...duration);

export const pause =
  (duration: Duration): Script =>
  (stage) =>
    stage.pause(drawn(stage, duration));

/** Plays one script after the other, as often as given. */
export const inOrder =
  (scripts: readonly Script[], times = 1): Script =>
  async (stage) => {
    for (let round = 0; round < times; round += 1)
      for (const script of scripts) await script(stage);
  };

export const freeze =
  (duration: Duration): ServerHarm =>
  (stage, nodes) =>
    stage.freeze(nodes, drawn(stage, duration));
export const restart =
  (options: { downMs?: Duration; keepData?: boolean } = {}): ServerHarm =>
  (stage, nodes) =>
    stage.restart(nodes, { ...options, downMs: drawn(stage, options.downMs ?? 0) });
export const flush: ServerHarm = (stage, nodes) => stage.flush(nodes);
export const links =
  (mode: LinkMode, duration: Duration): ServerHarm =>
  (stage, nodes) =>
    stage.links(mode, drawn(stage, duration), { nodes });
export const suffer =
  (condition: ErrorCondition, durationMs: number): ServerHarm =>
  (stage, nodes) =>
    stage.suffer(condition, nodes, durationMs);

/** Harms so many servers, drawn each time. */
export const some =
  (count: number, harm: ServerHarm): Script =>
  (stage) =>
    harm(stage, stage.someServers(count));

/** Two servers are harmed, and then two others. */
export const pairs =
  (harm: ServerHarm, pauseMs: number): Script =>
  async (stage) => {
    const order = stage.someServers(4);
    for (const pair of [order.slice(0, 2), order.slice(2)]) {
      await harm(stage, pair);
      await stage.pause(pauseMs);
    }
  };

/** Harms a worker, as often as given. */
export const someWorker = (times: number, harm: Harm<WorkerProcess>, duration: Duration): Script =>
  inOrder([(stage) => harm(stage, stage.aWorker()), pause(duration)], times);

export const stopWorker =
  (duration: Duration): Harm<WorkerProcess> =>
  (stage, worker) =>
    stage.stopWorker(worker, drawn(stage, duration));
export const killWorker: Harm<WorkerProcess> = (stage, worker) =>
  stage.killWorker(worker, stage.random.between(0, 300));

/** Does one harm after another for a while, each to a target that nothing else harms; the pauses between them are as long as given. */
export async function harmAll<Target>(
  stage: Stage,
  free: Set<Target>,
  harms: readonly Harm<Target>[],
  durationMs: number,
  pauses: Duration,
): Promise<void> {
  const until = performance.now() + durationMs;
  while (performance.now() < until) {
    const target = stage.random.pick([...free]);
    free.delete(target);
    await stage.random.pick(harms)(stage, target);
    free.add(target);
    await stage.pause(drawn(stage, pauses));
  }
}

/** A connection is looked after once in 10 s ± 25 %, doubted after 2 s of silence, and then replaced. */
export const NOTICED_MS = 15_000;

/** Connections are forgotten as by a NAT: nothing gets through, and no end and no reset tells of it. */
export const forget =
  (kinds: readonly ConnectionKind[], selection: { clients?: number[]; nodes?: number[] } = {}) =>
  (stage: Stage): Promise<void> =>
    stage.network.do({ type: 'forget', kinds, selection });

/** Checks that nobody goes on with a connection that was forgotten long ago. */
export const expectReplaced: Script = async (stage) => {
  const left = (await stage.network.connections()).filter(({ isForgotten }) => isForgotten);
  const kinds = left.map(({ kind }) => kind).join();
  stage.promise(left.length === 0, `${left.length} forgotten connections in use: ${kinds}`);
};

/**
 * Two servers, and then three, say nothing for so long. No process holds anything when they go on, so that whatever is left
 * there belongs to none; no connection is replaced, and no process joins more than once.
 */
export const stallTwice =
  (stall: ServerHarm, durationMs: number): Script =>
  async (stage) => {
    for (const nodes of [stage.someServers(2), stage.someServers(3)]) {
      const before = await stage.network.connections();
      const joinsBefore = await countJoins(stage);
      const rest = stage
        .pause(durationMs / 4)
        .then(() => stage.everyWorker((worker) => worker.ask({ type: 'rest' })));
      await Promise.all([stall(stage, nodes), rest]);
      await stage.pause(300);
      const orphans = await findLeakedKeys(stage.servers);
      stage.promise(orphans.length === 0, `orphaned: ${orphans.join()}`);
      await stage.everyWorker((worker) => worker.ask({ type: 'go-on' }));
      const after = new Set((await stage.network.connections()).map(({ id }) => id));
      const replaced = before.filter(({ id }) => !after.has(id));
      stage.promise(replaced.length === 0, `${replaced.length} connections replaced`);
      const joins = (await countJoins(stage)) - joinsBefore;
      const most = 2 * stage.workers.length * nodes.length;
      stage.promise(joins <= most, `${joins} joins, although at most ${most} are in order`);
      await stage.pause(TTL_MS * 1.5);
    }
  };

/** Counts how often servers were given a whole script, as every join is, since they started. */
async function countJoins({ servers }: Stage): Promise<number> {
  let joins = 0;
  for (const server of servers)
    await withAdmin(server, async (admin) => {
      const [, calls = 0] = /cmdstat_eval:calls=(\d+)/.exec(await admin.info('commandstats')) ?? [];
      joins += Number(calls);
    });
  return joins;
}
