import type { Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';
import { errorConditions, type ErrorCondition } from '../servers/error-conditions.ts';

// Servers that answer with errors, or not at all, because of the state they are in. All of it is real.

const all = errorConditions({ silentMs: 700, loadingMs: 1_500 });
const isLoading = ({ name }: ErrorCondition): boolean => name.startsWith('LOADING');
const refusing = all.filter((condition) => condition.kind === 'refuses' && !isLoading(condition));
const loading = all.filter(isLoading);
const silent = all.filter(({ kind }) => kind === 'silent');
/** What a server forgets besides scripts has schedules of its own. */
const momentary = all.filter(({ kind, forgets }) => kind === 'momentary' && forgets !== true);

/** Brings servers into a state, and returns how they leave it. */
async function begin(
  stage: Stage,
  condition: ErrorCondition,
  indices: readonly number[],
): Promise<() => Promise<unknown>> {
  stage.note(`${condition.name} on servers ${indices.join()}`);
  const ends = await Promise.all(indices.map((index) => condition.begin(stage.servers[index]!)));
  return () => Promise.all(ends.map((end) => end()));
}

/** One state after the other on two servers: nobody may notice. */
function onMinority(
  name: string,
  what: string,
  conditions: readonly ErrorCondition[],
  more: Partial<Schedule> = {},
): Schedule {
  return {
    name,
    what,
    limits: { expectedRefusals: new Set(['LOCK_BUSY']) },
    async play(stage) {
      for (const condition of conditions) {
        const end = await begin(stage, condition, stage.someServers(2));
        await stage.pause(400);
        await end();
        // Until clients that lost their connections are back, and what was restarted votes again.
        await stage.pause(condition.restarts === true ? stage.guardMs + 700 : 300);
      }
    },
    ...more,
  };
}

/** One state after the other on three servers: nobody gets a lock, and then at once. */
function onMajority(
  name: string,
  what: string,
  conditions: readonly ErrorCondition[],
  more: Partial<Schedule> = {},
): Schedule {
  return {
    name,
    what,
    async play(stage) {
      for (const condition of conditions) {
        let end = (): Promise<unknown> => Promise.resolve();
        await stage.withoutQuorum(
          500,
          async () => {
            end = await begin(stage, condition, stage.someServers(3));
          },
          () => end(),
        );
        await stage.pause(1_100);
      }
    },
    withoutEffect: ({ measures }) =>
      measures.refusals['QUORUM_UNAVAILABLE'] ? undefined : 'nobody met an error',
    ...more,
  };
}

const scriptsForgotten: Schedule = {
  name: 'scripts forgotten, clients disconnected',
  what: 'SCRIPT FLUSH, and then CLIENT KILL for all clients, on one server after another, each 0.2 s',
  async play(stage) {
    for (let round = 0; round < 20; round += 1) {
      const condition = momentary[round % momentary.length]!;
      const end = await begin(stage, condition, stage.someServers(1));
      await end();
      await stage.pause(200);
    }
  },
};

const names = (conditions: readonly ErrorCondition[]): string =>
  conditions.map(({ name }) => name).join(', ');

export const serverErrorSchedules: readonly Schedule[] = [
  onMinority('error replies of a minority', `two servers at a time: ${names(refusing)}`, refusing),
  onMajority('error replies of a majority', 'the same with three servers at a time', refusing),
  onMinority(
    'loading minority',
    'two servers restart with their data and take 1.5 s to load it, then two others',
    [...loading, ...loading],
    { servers: { appendonly: true } },
  ),
  onMinority(
    'slow scripts on a minority',
    `two servers at a time: ${names(silent)}, for 0.7 s`,
    silent,
  ),
  onMajority('slow scripts on a majority', 'the same with three servers at a time', silent, {
    quick: true,
  }),
  scriptsForgotten,
];
