import type { Evidence, Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';
import { slowScriptCondition } from '../servers/script-conditions.ts';

// Servers that stop or die for a while. A minority must not be noticed; a majority stops everybody, and recovers at once.

export const outageNoticed = ({ measures }: Evidence): string | undefined =>
  measures.outages.real > 0 ? undefined : 'no caller was refused for the outage';

const STALL_MS = 5_000;

/** Servers that say nothing for a while, and then go on: what was sent on a connection that was given up meanwhile is executed all the same. */
function stalled(
  name: string,
  what: string,
  stall: (stage: Stage, nodes: readonly number[]) => Promise<void>,
): Schedule {
  return {
    name,
    what: `${what} for 5 s, first two servers, then three: no connection is replaced, no key stays, and no process joins again`,
    load: { waitsMs: [0, 300, 3_000], longShare: 0 },
    play: async (stage) => {
      for (const nodes of [stage.someServers(2), stage.someServers(3)]) {
        const before = await stage.network.connections();
        const joinsBefore = await stage.countJoins();
        await Promise.all([stall(stage, nodes), letRest(stage)]);
        await stage.pause(300);
        const orphans = await stage.findOrphans();
        stage.promise(orphans.length === 0, `orphaned: ${orphans.join()}`);
        await stage.everyWorker((worker) => worker.ask({ type: 'go-on' }));
        const after = new Set((await stage.network.connections()).map(({ id }) => id));
        const replaced = before.filter(({ id }) => !after.has(id));
        const kinds = replaced.map(({ kind }) => kind).join();
        stage.promise(replaced.length === 0, `${replaced.length} connections replaced: ${kinds}`);
        const joins = (await stage.countJoins()) - joinsBefore;
        const most = 2 * stage.workers.length * nodes.length;
        stage.promise(joins <= most, `${joins} joins, although at most ${most} are in order`);
        await stage.pause(1_500);
      }
    },
    withoutEffect: outageNoticed,
  };
}

/** Lets every process hold nothing when the servers go on, so that whatever is left there belongs to none. */
async function letRest(stage: Stage): Promise<void> {
  await stage.pause(STALL_MS / 4);
  await stage.everyWorker((worker) => worker.ask({ type: 'rest' }));
}

export const serversAwaySchedules: readonly Schedule[] = [
  {
    name: 'minority frozen',
    what: 'two servers stop (SIGSTOP) for 1.5 s and go on, then two others',
    quick: true,
    async play(stage) {
      for (const pair of stage.twoPairs()) {
        await stage.freeze(pair, 1_500);
        await stage.pause(500);
      }
    },
  },
  {
    name: 'majority frozen',
    what: 'three servers stop for 1.8 s, past every lease, and go on',
    quick: true,
    async play(stage) {
      await stage.pause(500);
      await stage.freeze(stage.someServers(3), 1_800);
      await stage.pause(1_500);
    },
    withoutEffect: outageNoticed,
  },
  stalled('servers stopped for long', 'servers stop (SIGSTOP)', (stage, nodes) =>
    stage.freeze(nodes, STALL_MS),
  ),
  stalled(
    'servers in a long script',
    'a slow script keeps servers from answering',
    (stage, nodes) => stage.suffer(slowScriptCondition(STALL_MS), nodes, 0),
  ),
  {
    name: 'minority killed',
    what: 'two servers die and stay away for 2 s, then come back empty',
    async play(stage) {
      await stage.pause(500);
      await stage.restart(stage.someServers(2), { downMs: 2_000 });
      await stage.pause(2_000);
    },
  },
  {
    name: 'server 0 dead',
    what: 'the first server is away the whole time: no server is special',
    play: (stage) => stage.restart([0], { downMs: 4_000 }),
  },
];
