import { groupBy } from '../../../test/history/group-by.ts';
import type { CutEvent, FaultEvent, MarkEvent, NodeEvent } from '../campaign-event.ts';
import {
  ALWAYS,
  complement,
  coveredBy,
  difference,
  intersection,
  touching,
  union,
} from './intervals.ts';
import type { Interval, Timeline } from './intervals.ts';
import { longStalls, placeOf, type ObservedProcess } from './processes.ts';
import type { RunLimits } from './verdict.ts';

/** The facts of the history about servers and network. */
export interface NodeFacts {
  readonly faults: readonly FaultEvent[];
  readonly cuts: readonly CutEvent[];
  readonly marks: readonly MarkEvent[];
  readonly reports: readonly NodeEvent[];
  readonly processes: ReadonlyMap<string, ObservedProcess>;
  readonly limits: RunLimits;
}

/** When a worker could count on something, by what servers and network really were. */
export interface VotingTimes {
  /** The times in which it answers in time; its restart guard may still keep it from voting. */
  readonly answers: Timeline;
  /** The times in which it answers in time and may vote. */
  readonly votes: Timeline;
}

/**
 * `exactly`: faults as they were. `for clients`: with the time that clients may take to come back, and with stalls of the
 * machine that keep answers from arriving in time.
 */
export type HealthView = 'exactly' | 'for clients';

/** The time that a client takes to find out that something works again that it did not have to connect to again. */
const NOTICE_MS = 50;
/** The time that a client takes to connect again after several tries that failed. */
const RECONNECT_LATER_MS = 200;
/** First and longest pause of a client between two tries to connect; each failure doubles it. */
const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1_000;
/** Within this time a client finds out by itself that a connection was forgotten, and replaces it. */
const FORGOTTEN_MS = 15_000;

/** Time until clients are back. `brokeAt`: when they find out that they have to connect again. */
interface Away extends Interval {
  readonly brokeAt?: number;
}

/** The times in which worker `worker` (as `worker-2`) could count on one server. */
export function nodeTimes(
  facts: NodeFacts,
  worker: string,
  node: number,
  view: HealthView,
): VotingTimes {
  const { limits, marks } = facts;
  const hasSlack = view === 'for clients';
  const faults = facts.faults.filter(
    ({ nodes, workers }) => nodes.includes(node) && (workers?.includes(worker) ?? true),
  );
  const cuts = facts.cuts.filter((cut) => cut.worker === worker && cut.node === node);
  const pauses = hasSlack ? pausesOf(facts, worker) : [];
  const away = [
    ...faults.map((fault) => awayDuring(fault, hasSlack)),
    ...cuts.flatMap((cut) => awayAfter(facts, cut)),
  ];
  const stalls = hasSlack ? stallsOnTheWay(facts, worker, node) : [];
  const answers = complement(
    union([
      ...away.map((each) => untilNoticed(each, pauses)),
      ...longStalls(stalls, limits.nodeTimeoutMs),
      ...(hasSlack ? startsOf(facts, worker, node, pauses) : []),
    ]),
  );
  /** The guard begins with the first join: later than usual when those that could have joined did not run. */
  const joinedBy = (each: Away, endedAt: number): number => {
    const joined = facts.reports.find(
      (report) => report.node === node && report.change === 'joined' && report.at > endedAt,
    );
    // The report, the first one only, says when exactly it joined if nobody ran that could have joined it.
    if (!hasSlack) return joined?.at ?? each.to;
    const noticedAt = untilNoticed(each, pauses).to;
    // The server may have been away once more before.
    const [answering = { from: Infinity }] = touching(answers, noticedAt, Infinity);
    const joinable = Math.max(noticedAt, answering.from);
    return Math.max(each.to, Math.min(joinable, joined?.at ?? Infinity));
  };
  const guards = [
    // New servers have a guard as well; somebody had joined them all before the last worker had started.
    ...marks.flatMap(({ mark, at }) =>
      mark === 'started' ? [{ from: -Infinity, to: at + limits.ttlMs }] : [],
    ),
    ...faults
      .filter(({ guard }) => guard !== undefined)
      .map((fault) => {
        const each = awayDuring(fault, hasSlack);
        return { from: each.from, to: joinedBy(each, fault.at) + limits.ttlMs };
      }),
  ];
  return { answers, votes: difference(answers, union(guards)) };
}

/**
 * Times in which worker `worker` could count on a quorum of the servers.
 *
 * @param stableMs only those count that have been so for this long: one may come back just as another one goes
 */
export function quorumTimes(
  facts: NodeFacts,
  worker: string,
  view: HealthView,
  stableMs = 0,
): VotingTimes {
  const all = nodesOf(facts).map((node) => nodeTimes(facts, worker, node, view));
  const ofQuorum = (timelines: readonly Timeline[]): Timeline =>
    coveredBy(
      timelines.map((each) => union(each.map(({ from, to }) => ({ from: from + stableMs, to })))),
      quorumOf(facts),
    );
  return {
    answers: ofQuorum(all.map(({ answers }) => answers)),
    votes: ofQuorum(all.map(({ votes }) => votes)),
  };
}

/** The times in which all of `workers` could count on a quorum at once. */
export function quorumTimesOfAll(facts: NodeFacts, workers: Iterable<string>): VotingTimes {
  let all: VotingTimes = { answers: ALWAYS, votes: ALWAYS };
  for (const worker of workers) {
    const { answers, votes } = quorumTimes(facts, worker, 'exactly');
    all = { answers: intersection(all.answers, answers), votes: intersection(all.votes, votes) };
  }
  return all;
}

/** When enough servers for a quorum may vote, by their guards alone: at other times nobody can be granted anything. */
export function unguardedQuorum(facts: NodeFacts): Timeline {
  const unguarded = nodesOf(facts).map((node) => {
    const own = facts.faults.filter(({ nodes }) => nodes.includes(node));
    return complement(union(own.flatMap(({ guard }) => guard ?? [])));
  });
  return coveredBy(unguarded, quorumOf(facts));
}

/** When the network let everybody wait, or so many servers that the others are no quorum. */
export function machineStalls(facts: NodeFacts): Timeline {
  const { processes, limits } = facts;
  const stalls = (process: string): Timeline =>
    longStalls(processes.get(process)?.downtime ?? [], limits.nodeTimeoutMs);
  const servers = nodesOf(facts).map((node) => stalls(`server-${node}`));
  return union([...stalls('network'), ...coveredBy(servers, servers.length - quorumOf(facts) + 1)]);
}

/**
 * A process that has just started asks as soon as a quorum has been joined; the other servers take up to a second more, and
 * when it did not run meanwhile, until it has run again for a moment.
 */
function startsOf(
  { reports }: NodeFacts,
  worker: string,
  node: number,
  pauses: Timeline,
): Interval[] {
  const own = reports.filter(({ process }) => placeOf(process) === worker);
  return Array.from(groupBy(own, ({ process }) => [process]).values(), (ofStart) => {
    const from = ofStart[0]!.at;
    const first = ofStart.find((report) => report.node === node);
    const { to } = untilNoticed({ from, to: from + LONGEST_RETRY_MS, brokeAt: from }, pauses);
    return { from, to: Math.min(first?.at ?? Infinity, to) };
  });
}

/**
 * An answer passes the server, the network and the worker: short stalls of one after the other keep it as long as one that is
 * long. What the worker itself lets wait for long is no matter of the node.
 */
function stallsOnTheWay({ processes, limits }: NodeFacts, worker: string, node: number): Timeline {
  const own = Array.from(processes, ([process, { downtime }]) =>
    placeOf(process) === worker ? downtime : [],
  ).flat();
  return union([
    ...(processes.get(`server-${node}`)?.downtime ?? []),
    ...(processes.get('network')?.downtime ?? []),
    ...own.filter(({ from, to }) => to - from < limits.nodeTimeoutMs / 2),
  ]);
}

function nodesOf({ limits }: NodeFacts): number[] {
  return Array.from({ length: limits.nodes }, (_, node) => node);
}

function quorumOf({ limits }: NodeFacts): number {
  return Math.floor(limits.nodes / 2) + 1;
}

function awayDuring({ from, at, isOffline }: FaultEvent, hasSlack: boolean): Away {
  if (!hasSlack) return { from, to: at };
  if (!isOffline) return { from, to: at + NOTICE_MS };
  // Pauses between tries to connect double, so that the last one was no longer than all before it.
  const pauseMs = Math.min(at - from, LONGEST_RETRY_MS) + RECONNECT_LATER_MS;
  return { from, to: at + NOTICE_MS + pauseMs, brokeAt: from };
}

/** Everybody can vote without hints. */
function awayAfter(
  { reports, cuts }: NodeFacts,
  { kind, from, at, worker, node }: CutEvent,
): Away[] {
  if (kind === 'hints') return [];
  const joinedAt = reports
    .filter((report) => placeOf(report.process) === worker && report.node === node)
    .findLast((report) => report.change === 'joined' && report.at <= at)?.at;
  // How many connections in a row broke before a join: the pause doubles with each.
  const failures = cuts.filter(
    (cut) =>
      cut.worker === worker &&
      cut.node === node &&
      cut.kind !== 'hints' &&
      cut.at < at &&
      cut.at > (joinedAt ?? -Infinity),
  ).length;
  const retryMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures);
  const to = Math.min(at, from + FORGOTTEN_MS) + retryMs + NOTICE_MS;
  return [{ from, to, brokeAt: at }];
}

/** A worker that does not run meanwhile connects again when it runs. Expects `pauses` in order. */
function untilNoticed({ from, to, brokeAt = Infinity }: Away, pauses: Timeline): Interval {
  let back = to;
  for (const pause of pauses) {
    const isMeanwhile = pause.to > brokeAt && pause.from < back;
    if (isMeanwhile) back = Math.max(back, pause.to + RECONNECT_LATER_MS);
  }
  return { from, to: back };
}

/** When none of its processes ran: one that was killed is followed by the next. */
function pausesOf({ processes, limits }: NodeFacts, worker: string): Timeline {
  const own = Array.from(processes).flatMap(([process, observed]) =>
    placeOf(process) === worker ? [observed] : [],
  );
  const pauses = own.flatMap(({ downtime }) =>
    downtime.map(({ from, to }) => {
      if (to < Infinity) return { from, to };
      const later = own.map(({ startedAt }) => startedAt).filter((at) => at > from);
      return { from, to: Math.min(...later) };
    }),
  );
  return longStalls(union(pauses.filter(({ to }) => to < Infinity)), limits.nodeTimeoutMs);
}
