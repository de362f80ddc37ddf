import type { Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';

// Servers that come back, with and without what they knew, and servers that are emptied. What restarted does not vote for a
// guard time; where that is a majority, nobody is granted a lock before.

const WITH_DATA = { servers: { appendonly: true } } as const;
const QUICK = { quick: true } as const;
/** Long enough for servers to be joined again, and vote, before others are harmed. */
const AFTER_GUARD_MS = 700;

/** Way in which servers lose what they knew, or start again. */
type Harm = (stage: Stage, nodes: readonly number[]) => Promise<void>;

const restartEmpty: Harm = (stage, nodes) => stage.restart(nodes);
const restartWithData: Harm = (stage, nodes) => stage.restart(nodes, { keepData: true });
const killForLong: Harm = (stage, nodes) => stage.restart(nodes, { downMs: 1_200 });
const flush: Harm = (stage, nodes) => stage.flush(nodes);

/** Two servers are harmed, and then two others. */
function twice(name: string, what: string, harm: Harm, more: Partial<Schedule> = {}): Schedule {
  const play = async (stage: Stage): Promise<void> => {
    for (const pair of stage.twoPairs()) {
      await harm(stage, pair);
      await stage.pause(stage.guardMs + AFTER_GUARD_MS);
    }
  };
  return { name, what: `${what}, then two others when they vote again`, ...more, play };
}

/** Harms so many servers that nobody may be granted a lock. */
function once(
  name: string,
  what: string,
  count: number,
  harm: Harm,
  more: Partial<Schedule> = {},
): Schedule {
  const play = async (stage: Stage): Promise<void> => {
    await stage.pause(700);
    await harm(stage, stage.someServers(count));
    await stage.pause(2_200);
  };
  return { name, what, ...more, play };
}

const [EMPTY, AOF] = ['without their data', '(kill -9) and come back with their append-only files'];

export const restartSchedules: readonly Schedule[] = [
  twice('minority restarted empty', `two servers restart at once ${EMPTY}`, restartEmpty, QUICK),
  once('majority restarted empty', `three servers restart ${EMPTY}`, 3, restartEmpty, QUICK),
  once('majority killed', 'three servers die, and come back empty after 1.2 s', 3, killForLong),
  once('all restarted empty', `all servers restart ${EMPTY}`, 5, restartEmpty),
  twice('minority restarted with AOF', `two servers die ${AOF}`, restartWithData, WITH_DATA),
  once('majority restarted with AOF', `three servers die ${AOF}`, 3, restartWithData, WITH_DATA),
  {
    name: 'rolling restarts, fast',
    what: 'every server restarts empty, one each 0.3 s, three times round: faster than leases end',
    async play(stage) {
      await stage.pause(500);
      for (let round = 0; round < 15; round += 1) {
        await stage.restart([round % 5]);
        await stage.pause(300);
      }
      await stage.pause(2_200);
    },
  },
  {
    name: 'rolling restarts, slow',
    what: 'every server restarts empty, one each 1.6 s: the restart guard has passed before the next',
    load: { longShare: 0.2 },
    async play(stage) {
      for (const node of stage.servers.keys()) {
        await stage.restart([node]);
        await stage.pause(stage.guardMs + 600);
      }
    },
    withoutEffect: ({ measures }) =>
      measures.extensions > 0 ? undefined : 'no lease was extended over a restart',
  },
  twice('minority FLUSHALL', 'FLUSHALL on two servers', flush),
  once('majority FLUSHALL', 'FLUSHALL on 3 servers', 3, flush, QUICK),
  once('FLUSHALL everywhere', 'FLUSHALL on 5 servers', 5, flush),
];
