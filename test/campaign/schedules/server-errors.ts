import type { Schedule } from '../run/schedule.ts';
import { errorConditions, type ErrorCondition } from '../servers/error-conditions.ts';
import { outageNoticed } from './servers-away.ts';

// Servers that answer with errors, or not at all, because of the state they are in. All of it is real.

const all = errorConditions({ silentMs: 700, loadingMs: 1_500 });
const isLoading = ({ name }: ErrorCondition): boolean => name.startsWith('LOADING');
const refusing = all.filter((condition) => condition.kind === 'refuses' && !isLoading(condition));
const loading = all.filter(isLoading);
const silent = all.filter(({ kind }) => kind === 'silent');
/** Loss of anything but scripts has schedules of its own. */
const momentary = all.filter(({ kind, forgets }) => kind === 'momentary' && forgets !== true);
/** Refusals, one of each kind: in the whole server, in its role, in the rights of a user. */
const neverVoting = ['OOM', 'READONLY as a replica', 'no right to the keys'].map((name) =>
  all.find((condition) => condition.name === name)!,
);

/** Play of one state after the other on two servers: no caller may notice. */
const onMinority = (conditions: readonly ErrorCondition[]): Pick<Schedule, 'play'> => ({
  async play(stage) {
    for (const condition of conditions) {
      await stage.suffer(condition, stage.someServers(2), 400);
      // Waits until clients that lost their connections are back, and what was restarted votes again.
      const { beginsGuard, isOffline } = condition;
      await stage.pause(beginsGuard ? stage.guardMs + 700 : isOffline ? 700 : 300);
    }
  },
});

/** Play of one state after the other on three servers: nobody gets a lock, and then at once. */
const onMajority = (
  conditions: readonly ErrorCondition[],
): Pick<Schedule, 'play' | 'withoutEffect'> => ({
  async play(stage) {
    for (const condition of conditions) {
      await stage.suffer(condition, stage.someServers(3), 500);
      await stage.pause(1_100);
    }
  },
  withoutEffect: outageNoticed,
});

/** Schedule in which one server refuses every vote for long: it is reported, once, and once more when it votes again. */
const oneNeverVotes = (nodes: number, more: Partial<Schedule> = {}): Schedule => ({
  name: `one of ${nodes} never votes`,
  what: `one of ${nodes} servers answers and refuses every vote for 3 s, again and again: ${names(neverVoting)}; each process reports it once, and once that it votes again`,
  nodes,
  // A server that takes no new lock may extend those that it has, and that is a vote.
  load: { longShare: 0, unextendedShare: 1 },
  async play(stage) {
    for (const condition of neverVoting) {
      // Workers hold nothing when it begins: to name a holder is a vote as well, and it may do so without writing.
      await stage.everyWorker((worker) => worker.ask({ type: 'rest' }));
      await Promise.all([
        stage.suffer(condition, stage.someServers(1), 3_000),
        stage.pause(300).then(() => stage.everyWorker((worker) => worker.ask({ type: 'go-on' }))),
      ]);
      // Pause so long that it is certain what is reported afterwards.
      await stage.pause(2_500);
    }
  },
  ...more,
});

const names = (conditions: readonly ErrorCondition[]): string =>
  conditions.map(({ name }) => name).join(', ');

export const serverErrorSchedules: readonly Schedule[] = [
  {
    name: 'error replies of a minority',
    quick: true,
    what: `two servers at a time: ${names(refusing)}`,
    ...onMinority(refusing),
  },
  {
    name: 'error replies of a majority',
    what: 'the same with three servers at a time',
    ...onMajority(refusing),
  },
  oneNeverVotes(3, { quick: true }),
  oneNeverVotes(5),
  {
    name: 'loading minority',
    what: 'two servers restart with their data and take 1.5 s to load it, then two others',
    ...onMinority([...loading, ...loading]),
    servers: { appendonly: true },
  },
  {
    name: 'slow scripts on a minority',
    what: `two servers at a time: ${names(silent)}, for 0.7 s`,
    ...onMinority(silent),
  },
  {
    name: 'slow scripts on a majority',
    what: 'the same with three servers at a time',
    ...onMajority(silent),
    quick: true,
  },
  {
    name: 'scripts forgotten, clients disconnected',
    what: 'SCRIPT FLUSH, and then CLIENT KILL for all clients, on one server after another, each 0.2 s',
    async play(stage) {
      for (let round = 0; round < 20; round += 1) {
        await stage.suffer(momentary[round % momentary.length]!, stage.someServers(1), 0);
        await stage.pause(200);
      }
    },
  },
];
