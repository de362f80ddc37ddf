import type { CampaignEvent } from '../campaign-event.ts';
import {
  loading,
  MOMENTARY,
  NO_KEYS,
  OOM,
  pausedClients,
  READONLY,
  REFUSING,
  silentScript,
} from '../conditions.ts';
import type { ErrorCondition } from '../conditions.ts';
import type { EventOf } from '../campaign-event.ts';
import type { Evidence, Schedule, Script } from '../schedule.ts';
import {
  flush,
  freeze,
  inOrder,
  pairs,
  pause,
  restart,
  some,
  stopForLong,
  suffer,
} from '../scripts.ts';
import { TTL_MS } from '../stage.ts';
import { outageNoticed } from './evidence.ts';

// Servers that stop, die, forget, answer with errors, or have a wrong clock. A minority must not be noticed; a majority stops
// everybody, and recovers at once. What restarted or was emptied does not vote for a guard time.

/** Long enough for servers to be joined again, and vote, before others are harmed. */
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
  {
    name: 'servers stopped for long',
    what: 'servers stop for 5 s, first two, then three: no connection is replaced, no key stays, and no process joins again',
    load: { waitsMs: [0, 300, 3_000], longShare: 0 },
    play: stopForLong(5_000),
    withoutEffect: outageNoticed,
  },
  {
    name: 'minority restarted empty',
    what: 'two servers restart at once without their data, then two others; then server 0 and another stay away for 2 s',
    quick: true,
    play: inOrder([
      pairs(restart(), AFTER_GUARD_MS),
      (stage) => stage.restart([0, 3], { downMs: 2_000 }),
      pause(2_000),
    ]),
  },
  {
    name: 'majority restarted empty',
    what: 'three servers restart without their data, and three once more, which stay away for 1.2 s',
    quick: true,
    play: inOrder([
      pause(700),
      some(3, restart()),
      pause(2_200),
      some(3, restart({ downMs: 1_200 })),
      pause(2_200),
    ]),
  },
  {
    name: 'majority restarted with AOF',
    what: 'three servers die (kill -9) and come back with their append-only files',
    servers: { appendonly: true },
    play: inOrder([pause(700), some(3, restart({ keepData: true })), pause(2_200)]),
  },
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
  {
    name: 'minority FLUSHALL',
    what: 'FLUSHALL on two servers, then on two others',
    play: pairs(flush, AFTER_GUARD_MS),
  },
  {
    name: 'majority FLUSHALL',
    what: 'FLUSHALL on three servers, and then on all',
    quick: true,
    play: inOrder([pause(700), some(3, flush), pause(2_200), some(5, flush), pause(2_200)]),
  },
];

/** One state after the other on two servers: no caller may notice. */
const onMinority = (conditions: readonly ErrorCondition[]): Script =>
  inOrder(
    conditions.flatMap((condition) => {
      // Until clients that lost their connections are back, and what was restarted votes again.
      const { beginsGuard, isOffline } = condition;
      const pauseMs = beginsGuard ? AFTER_GUARD_MS : isOffline ? 700 : 300;
      return [some(2, suffer(condition, 400)), pause(pauseMs)];
    }),
  );

/** One state after the other on three servers: nobody gets a lock, and then at once. */
const onMajority = (conditions: readonly ErrorCondition[]): Script =>
  inOrder(conditions.flatMap((condition) => [some(3, suffer(condition, 500)), pause(1_100)]));

const SILENT_MS = 700;
const silent = [
  silentScript(SILENT_MS),
  pausedClients('ALL', SILENT_MS),
  pausedClients('WRITE', SILENT_MS),
];
/** Of each kind of refusal one: in the whole server, in its role, in the rights of a user. */
const neverVoting = [OOM, READONLY, NO_KEYS];
/** What a node does is reported within this time, also under load. */
const REPORT_MS = 2_400;

/** Every process reports a node that refuses every vote, once, and once more that it votes again. */
function missingReport({ history }: Evidence): string | undefined {
  const of = <Type extends CampaignEvent['type']>(type: Type) =>
    history.filter((event): event is EventOf<Type> => event.type === type);
  const processes = new Set(of('asked').map(({ process }) => process));
  for (const { what, nodes, from, at } of of('fault')) {
    for (const process of processes) {
      const reports = of('node').filter(
        (report) =>
          report.process === process &&
          nodes.includes(report.node) &&
          report.at >= from &&
          report.at <= at + REPORT_MS,
      );
      const failing = reports.filter((report) => report.change === 'failing' && report.at <= at);
      if (failing.length !== 1) return `${what}: ${process} reported it ${failing.length} times`;
      const later = reports.slice(reports.indexOf(failing[0]!));
      if (!later.some(({ change }) => change === 'joined'))
        return `${what}: ${process} did not report that it voted again`;
    }
  }
  return undefined;
}

const serverErrors: readonly Schedule[] = [
  {
    name: 'error replies of a minority',
    what: `two servers at a time: ${REFUSING.map(({ name }) => name).join(', ')}`,
    quick: true,
    play: onMinority(REFUSING),
  },
  {
    name: 'error replies of a majority',
    what: 'the same with three servers at a time',
    play: onMajority(REFUSING),
    withoutEffect: outageNoticed,
  },
  {
    name: 'one of 3 never votes',
    what: 'one of 3 servers answers and refuses every vote for 3 s, again and again: each process reports it once, and once that it votes again',
    quick: true,
    limits: { nodes: 3 },
    // A server that takes no new lock may extend those that it has, and that is a vote.
    load: { longShare: 0, unextendedShare: 1 },
    play: inOrder(
      neverVoting.map((condition): Script => async (stage) => {
        // Nobody holds anything when it begins: to name a holder is a vote as well, and it may do so without writing.
        await stage.everyWorker((worker) => worker.ask({ type: 'rest' }));
        const goOn = stage
          .pause(300)
          .then(() => stage.everyWorker((worker) => worker.ask({ type: 'go-on' })));
        await Promise.all([stage.suffer(condition, stage.someServers(1), 3_000), goOn]);
        // So long that it is certain what is reported afterwards.
        await stage.pause(REPORT_MS + 100);
      }),
    ),
    broken: missingReport,
  },
  {
    name: 'loading minority',
    what: 'two servers restart from a snapshot and take 1.5 s to load it, then two others',
    play: onMinority([loading(1_500), loading(1_500)]),
  },
  {
    name: 'slow scripts on a minority',
    what: `two servers at a time: ${silent.map(({ name }) => name).join(', ')}, for 0.7 s`,
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
    load: { longShare: 0.2 },
    // Seen once in some dozens of runs: a grant beside votes of rivals has a bare quorum until its first extension.
    limits: { overlapMs: OVERLAP_MS, overlaps: 1 },
    play: async (stage) => {
      const order = stage.someServers(4);
      await stage.pause(500);
      for (const offsetMs of [FAR_MS, 2 * FAR_MS]) {
        for (const pair of [order.slice(0, 2), order.slice(2)]) {
          await stage.moveClocks(pair, offsetMs);
          // Longer than an extension interval and its answer.
          await stage.pause(800);
        }
      }
    },
  },
  {
    name: 'clocks of a majority jump ahead',
    what: 'the clocks of three servers jump ahead by 5 s at once: the one case in which two holders may overlap, for up to an extension interval',
    ...movable,
    // Who tries again and again is faster than the holder, who repairs with its next extension.
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
