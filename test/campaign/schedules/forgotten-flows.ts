import type { Evidence, Schedule } from '../run/schedule.ts';
import type { Stage } from '../run/stage.ts';
import type { ConnectionKind } from '../network/network-command.ts';

// Networks that silently forget connections, as NATs and load balancers do: nothing gets through any more, no end and no reset
// tells of it, and new connections work. Only a client that looks after its connections can notice.

/** A connection is looked after once in 10 s ± 25 %, doubted after 2 s of silence, and then replaced. */
const NOTICED_MS = 15_000;

/** Checks that nobody goes on with a connection that was forgotten for so long. */
async function expectReplaced(stage: Stage): Promise<void> {
  const left = (await stage.network.connections()).filter(({ isForgotten }) => isForgotten);
  const kinds = left.map(({ kind }) => kind).join();
  stage.promise(left.length === 0, `${left.length} forgotten connections in use: ${kinds}`);
}

/** Connections of all workers to some servers, and then all of one worker; each is in use. */
const underLoad = (name: string, what: string, kinds: readonly ConnectionKind[]): Schedule => ({
  name,
  what: `${what} is forgotten between all workers and two servers, then two others, then between one worker and all servers`,
  async play(stage) {
    for (const nodes of stage.twoPairs()) {
      await stage.network.forgetConnections(kinds, { nodes });
      await stage.pause(4_000);
    }
    await stage.network.forgetConnections(kinds, { clients: [0] });
    await stage.pause(NOTICED_MS);
    await expectReplaced(stage);
  },
  // A caller that receives no release waits until the lease could be over.
  ...(kinds.includes('hints') && { limits: { idleMs: undefined } }),
  withoutEffect: ({ network }) =>
    network.forgotten >= 16 ? undefined : `only ${network.forgotten} connections forgotten`,
});

const [FORGOTTEN, NOTICED] = ['hints are forgotten', 'it must have been noticed'];

/** Hand-overs between processes, before connections are forgotten and after that must have been noticed. */
const hints: Schedule = {
  name: 'subscriber connections forgotten',
  what: 'all subscriber connections are forgotten: 15 s later locks are handed over as quickly as before, and no call failed',
  load: {
    callers: 1,
    keys: 1,
    waitsMs: [20_000],
    holdMs: [100, 150],
    longShare: 0,
    unextendedShare: 0,
    setShare: 0,
    // Caller that let go is not the next one to ask.
    pauseMs: 1_000,
  },
  limits: { idleMs: undefined },
  async play(stage) {
    await stage.pause(5_000);
    stage.note(FORGOTTEN);
    await stage.network.forgetConnections(['hints']);
    await stage.pause(NOTICED_MS);
    stage.note(NOTICED);
    await stage.pause(5_000);
    await expectReplaced(stage);
  },
  broken: ({ history, measures }) => {
    const refused = Object.keys(measures.refusals).join();
    if (refused !== '') return `callers failed: ${refused}`;
    const [before, after] = [
      medianHandOver(history, 'measuring', FORGOTTEN),
      medianHandOver(history, NOTICED, 'measured'),
    ];
    return after <= 2 * before + 10
      ? undefined
      : `hand-overs took ${before.toFixed(1)} ms, and ${after.toFixed(1)} ms after it`;
  },
};

/** Median time that the only key was on its way from one process to another that already waited for it, between two marks. */
function medianHandOver(history: Evidence['history'], from: string, to: string): number {
  const askedAt = new Map<string, number>();
  const times: number[] = [];
  let isBetween = false;
  let released: { readonly process: string; readonly at: number } | undefined;
  for (const event of history) {
    if (event.type === 'mark') {
      const name = event.mark === 'note' ? event.text : event.mark;
      if (name === from || name === to) isBetween = name === from;
    } else if (event.type === 'asked') askedAt.set(event.process, event.at);
    else if (event.type === 'released') released = event;
    else if (event.type === 'granted' && released && isBetween) {
      const isHandedOver =
        event.process !== released.process && askedAt.get(event.process)! < released.at;
      if (isHandedOver) times.push(event.at - released.at);
    }
  }
  times.sort((a, b) => a - b);
  return times[times.length >> 1] ?? Infinity;
}

/** Long after everything was forgotten, and seldom: one try must do. */
const rareCaller: Schedule = {
  name: 'rare callers, connections forgotten',
  what: 'each process tries a free lock once in 16 s; in between all its connections are forgotten while they are idle',
  load: { callers: 0 },
  limits: { idleMs: undefined },
  async play(stage) {
    const useAll = (): Promise<unknown> =>
      stage.everyWorker((worker) =>
        worker.ask({ type: 'use', key: `rare-${worker.place}`, waitMs: 0 }),
      );
    await useAll();
    for (let round = 0; round < 2; round += 1) {
      await stage.network.forgetConnections(['commands', 'hints']);
      await stage.pause(NOTICED_MS + 1_000);
      await useAll();
    }
    await expectReplaced(stage);
  },
  broken: ({ measures }) => {
    const refused = JSON.stringify(measures.refusals);
    return refused === '{}' ? undefined : `callers failed: ${refused}`;
  },
};

export const forgottenFlowSchedules: readonly Schedule[] = [
  underLoad('command connections forgotten', 'the connection for votes', ['commands']),
  hints,
  underLoad('all connections forgotten', 'every connection', ['commands', 'hints']),
  rareCaller,
];
