import { loading, MOMENTARY, pausedClients, REFUSING, silentScript } from '../conditions.ts';
import type { ErrorCondition } from '../conditions.ts';
import type { Schedule, Script } from '../schedule.ts';
import {
  flush,
  freeze,
  inOrder,
  pairs,
  pause,
  restart,
  some,
  stallTwice,
  suffer,
  type ServerHarm,
} from '../scripts.ts';
import { TTL_MS } from '../stage.ts';
import { outageNoticed } from './evidence.ts';

// Servers that stop, die, forget, answer with errors, or have a wrong clock. A minority must not be noticed; a majority stops
// everybody, and recovers at once. What restarted or was emptied does not vote for a guard time.

/** The time for servers to be joined again, and vote, before others are harmed. */
const AFTER_GUARD_MS = TTL_MS + 700;

const steady: readonly Schedule[] = [
  {
    name: 'baseline',
    what: 'nothing fails',
    quick: true,
    play: pause(4_000),
    withoutEffect: ({ measures: { grants, extensions } }) =>
      extensions === 0 || grants < 50 ? `${grants} grants, ${extensions} extensions` : undefined,
  },
  {
    name: 'contention',
    what: '32 callers in 4 processes want one record',
    quick: true,
    load: { callers: 8, keys: 1, holdMs: [0, 5], longShare: 0, setShare: 0, pauseMs: 0 },
    play: pause(4_000),
    withoutEffect: ({ measures: { grants } }) => (grants < 100 ? `${grants} grants` : undefined),
  },
];

const STALL_MS = 5_000;

/** Servers that say nothing for a while, and then go on. */
const stalled = (name: string, what: string, stall: ServerHarm): Schedule => ({
  name,
  what: `${what} for 5 s, first two servers, then three: no connection is replaced, no key stays, and no process joins again`,
  load: { waitsMs: [0, 300, 3_000], longShare: 0 },
  play: stallTwice(stall, STALL_MS),
  withoutEffect: outageNoticed,
});

/** Harms two servers, and then two others. */
const twice = (
  name: string,
  what: string,
  harm: ServerHarm,
  more: Partial<Schedule> = {},
): Schedule => ({
  name,
  what: `${what}, then two others when they vote again`,
  ...more,
  play: pairs(harm, AFTER_GUARD_MS),
});

/** Harms so many servers that nobody may be granted a lock. */
const once = (
  name: string,
  what: string,
  count: number,
  harm: ServerHarm,
  more: Partial<Schedule> = {},
): Schedule => ({
  name,
  what,
  ...more,
  play: inOrder([pause(700), some(count, harm), pause(2_200)]),
});

const QUICK = { quick: true } as const;
const KEEP = { keepData: true } as const;
const WITH_DATA = { servers: { appendonly: true } } as const;
const [EMPTY, AOF] = ['without their data', '(kill -9) and come back with their append-only files'];

const serversAway: readonly Schedule[] = [
  {
    name: 'minority frozen',
    what: 'two servers stop (SIGSTOP) for 1.5 s and go on, then two others',
    quick: true,
    play: pairs(freeze(1_500), 500),
  },
  {
    name: 'majority frozen',
    what: 'three servers stop for 1.8 s, past every lease, and go on',
    quick: true,
    play: inOrder([pause(500), some(3, freeze(1_800)), pause(1_500)]),
    withoutEffect: outageNoticed,
  },
  stalled('servers stopped for long', 'servers stop (SIGSTOP)', freeze(STALL_MS)),
  stalled(
    'servers in a long script',
    'a slow script keeps servers from answering',
    suffer(silentScript(STALL_MS), 0),
  ),
  {
    name: 'minority killed',
    what: 'two servers die and stay away for 2 s, then come back empty',
    play: inOrder([pause(500), some(2, restart({ downMs: 2_000 })), pause(2_000)]),
  },
  {
    name: 'server 0 dead',
    what: 'the first server is away the whole time: no server is special',
    play: (stage) => stage.restart([0], { downMs: 4_000 }),
  },
  twice('minority restarted empty', `two servers restart at once ${EMPTY}`, restart(), QUICK),
  once('majority restarted empty', `three servers restart ${EMPTY}`, 3, restart(), QUICK),
  once(
    'majority killed',
    'three servers die, and come back empty after 1.2 s',
    3,
    restart({ downMs: 1_200 }),
  ),
  once('all restarted empty', `all servers restart ${EMPTY}`, 5, restart()),
  twice('minority restarted with AOF', `two servers die ${AOF}`, restart(KEEP), WITH_DATA),
  once('majority restarted with AOF', `three servers die ${AOF}`, 3, restart(KEEP), WITH_DATA),
  {
    name: 'rolling restarts, fast',
    what: 'every server restarts empty, one each 0.3 s, three times round: faster than leases end',
    play: inOrder([
      pause(500),
      inOrder(
        [0, 1, 2, 3, 4].map((node) => inOrder([(stage) => stage.restart([node]), pause(300)])),
        3,
      ),
      pause(2_200),
    ]),
  },
  {
    name: 'rolling restarts, slow',
    what: 'every server restarts empty, one each 1.6 s: the restart guard has passed before the next',
    load: { longShare: 0.2 },
    play: inOrder(
      [0, 1, 2, 3, 4].map((node) =>
        inOrder([(stage) => stage.restart([node]), pause(TTL_MS + 600)]),
      ),
    ),
    withoutEffect: ({ measures }) =>
      measures.extensions > 0 ? undefined : 'no lease was extended over a restart',
  },
  twice('minority FLUSHALL', 'FLUSHALL on two servers', flush),
  once('majority FLUSHALL', 'FLUSHALL on three servers', 3, flush, QUICK),
  once('FLUSHALL everywhere', 'FLUSHALL on all servers', 5, flush),
];

/** A play of one state after the other on two servers: no caller may notice. */
const onMinority = (conditions: readonly ErrorCondition[]): Script =>
  inOrder(
    conditions.flatMap((condition) => {
      // It waits until clients that lost their connections are back, and what was restarted votes again.
      const { beginsGuard, isOffline } = condition;
      const pauseMs = beginsGuard ? AFTER_GUARD_MS : isOffline ? 700 : 300;
      return [some(2, suffer(condition, 400)), pause(pauseMs)];
    }),
  );

/** A play of one state after the other on three servers: nobody gets a lock, and then at once. */
const onMajority = (conditions: readonly ErrorCondition[]): Script =>
  inOrder(conditions.flatMap((condition) => [some(3, suffer(condition, 500)), pause(1_100)]));

const SILENT_MS = 700;
const silent = [
  silentScript(SILENT_MS),
  pausedClients('ALL', SILENT_MS),
  pausedClients('WRITE', SILENT_MS),
];
/** Refusals, one of each kind: in the whole server, in its role, in the rights of a user. */
const neverVoting = REFUSING.filter(({ name }) =>
  /^(OOM|READONLY|no right to the keys)/.test(name),
);

const namesOf = (conditions: readonly ErrorCondition[]): string =>
  conditions.map(({ name }) => name).join(', ');

/** A schedule in which one server refuses every vote for long: it is reported, once, and once more when it votes again. */
const oneNeverVotes = (nodes: number, more: Partial<Schedule> = {}): Schedule => ({
  name: `one of ${nodes} never votes`,
  what: `one of ${nodes} servers answers and refuses every vote for 3 s, again and again: ${namesOf(neverVoting)}; each process reports it once, and once that it votes again`,
  limits: { nodes },
  // A server that takes no new lock may extend those that it has, and that is a vote.
  load: { longShare: 0, unextendedShare: 1 },
  play: inOrder(
    neverVoting.map((condition): Script => async (stage) => {
      // Workers hold nothing when it begins: to name a holder is a vote as well, and it may do so without writing.
      await stage.everyWorker((worker) => worker.ask({ type: 'rest' }));
      const goOn = stage
        .pause(300)
        .then(() => stage.everyWorker((worker) => worker.ask({ type: 'go-on' })));
      await Promise.all([stage.suffer(condition, stage.someServers(1), 3_000), goOn]);
      // The pause is so long that it is certain what is reported afterwards.
      await stage.pause(2_500);
    }),
  ),
  ...more,
});

const serverErrors: readonly Schedule[] = [
  {
    name: 'error replies of a minority',
    what: `two servers at a time: ${namesOf(REFUSING)}`,
    quick: true,
    play: onMinority(REFUSING),
  },
  {
    name: 'error replies of a majority',
    what: 'the same with three servers at a time',
    play: onMajority(REFUSING),
    withoutEffect: outageNoticed,
  },
  oneNeverVotes(3, QUICK),
  oneNeverVotes(5),
  {
    name: 'loading minority',
    what: 'two servers restart from a snapshot and take 1.5 s to load it, then two others',
    play: onMinority([loading(1_500), loading(1_500)]),
  },
  {
    name: 'slow scripts on a minority',
    what: `two servers at a time: ${namesOf(silent)}, for 0.7 s`,
    play: onMinority(silent),
  },
  {
    name: 'slow scripts on a majority',
    what: 'the same with three servers at a time',
    quick: true,
    play: onMajority(silent),
    withoutEffect: outageNoticed,
  },
  {
    name: 'scripts forgotten, clients disconnected',
    what: 'SCRIPT FLUSH, and then CLIENT KILL for all clients, on one server after another, each 0.2 s',
    play: inOrder(
      MOMENTARY.flatMap((condition) => [some(1, suffer(condition, 0)), pause(200)]),
      10,
    ),
  },
];

const movable = { servers: { movableClock: true } } as const;
const FAR_MS = 5_000;
/** An extension interval and a node timeout. */
const OVERLAP_MS = TTL_MS / 3 + 100;

const serverClocks: readonly Schedule[] = [
  {
    name: 'clocks of a minority jump ahead',
    what: 'the clocks of two servers jump ahead by 5 s, then those of two others: holders repair in between',
    ...movable,
    quick: true,
    // A grant beside votes of rivals has a bare quorum until its first extension, and forever where it has none.
    load: { longShare: 0.2, unextendedShare: 0 },
    limits: { overlapMs: OVERLAP_MS },
    play: async (stage) => {
      const order = stage.someServers(4);
      await stage.pause(500);
      for (const offsetMs of [FAR_MS, 2 * FAR_MS]) {
        for (const pair of [order.slice(0, 2), order.slice(2)]) {
          await stage.moveClocks(pair, offsetMs);
          // Pauses for longer than an extension interval and its answer.
          await stage.pause(800);
        }
      }
    },
  },
  {
    name: 'clocks of a majority jump ahead',
    what: 'the clocks of three servers jump ahead by 5 s at once: the one case in which two holders may overlap, for up to an extension interval',
    ...movable,
    // Callers that try again and again are faster than the holder, who repairs with its next extension.
    load: {
      keys: 2,
      waitsMs: [0, 0, 0, 300],
      // Two long holds beside each other are more than the limit, if the first holder is not notified.
      holdMs: [600, 900],
      longShare: 0.3,
      // The holder of a lock that is not extended is notified of nothing before its validity ends.
      unextendedShare: 0,
      setShare: 0,
      pauseMs: 10,
    },
    limits: { overlapMs: OVERLAP_MS },
    play: inOrder([
      pause(500),
      ...[1, 2, 3, 4, 5, 6].flatMap((round) => [
        some(3, (stage, nodes) => stage.moveClocks(nodes, round * FAR_MS)),
        pause(1_000),
      ]),
    ]),
    withoutEffect: ({ measures }) =>
      measures.longestOverlapMs > 0 ? undefined : 'no two holders overlapped',
  },
  {
    name: 'clocks of a minority jump back',
    what: 'the clocks of two servers jump back by 5 s: locks stay there longer than they should',
    ...movable,
    settleMs: FAR_MS + 1_500,
    play: inOrder([
      pause(500),
      some(2, (stage, nodes) => stage.moveClocks(nodes, -FAR_MS)),
      pause(3_500),
    ]),
  },
  {
    name: 'all clocks wander',
    what: 'one server after another jumps by up to 0.4 s to either side, each 0.7 s',
    ...movable,
    load: { longShare: 0.1 },
    play: inOrder(
      [
        some(1, (stage, nodes) =>
          stage.moveClocks(nodes, Math.round(stage.random.between(-400, 400))),
        ),
        pause(700),
      ],
      8,
    ),
  },
];

export const serverSchedules: readonly Schedule[] = [
  ...steady,
  ...serversAway,
  ...serverErrors,
  ...serverClocks,
];
