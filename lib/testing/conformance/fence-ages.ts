import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { demand, isRefused, noPause, ticketFor, type FenceStore } from '../fence-store.ts';
import {
  atOnce,
  attempt,
  claims,
  FENCE_CASES,
  interleave,
  inTurn,
  on,
  OVERLAPPING,
  reads,
  staleClaim,
  staleWrite,
  textBy,
  writes,
  type FenceCases,
  type FenceStep,
} from './fence-cases.ts';

/** How far the clock of the store may be from that of this process. */
const SKEW_MS = 60_000;

/** The time until a token becomes too old, where it shall. */
const LIFE_MS = 400;

const ROUNDS = 3;
const KEYS = 16;

/** The time that the crowd goes on when its keys may be forgotten, in microseconds. */
const AFTERWARDS = 100_000n;

/** The tries for the edge of age: those whose answer takes long tell nothing new. */
const MOST_TRIES = 100;

/** By how much the first key that a prune must keep is younger than the oldest accepted token, and how much further each next one is. */
const LEAST_YOUNGER_MS = 1_000;
const FURTHER = 30;

/** Ages by the clock of this process, in milliseconds. */
interface Edge {
  readonly admittedMs: number;
  readonly refusedMs: number;
}

const timeAgo = (ageMs: number): bigint => BigInt(Math.floor((Date.now() - ageMs) * 1_000));

/** The cases of a store that rejects tokens for their age, and of one that forgets them. */
export function ageCases(store: FenceStore): FenceCases {
  const { maxAge } = store;
  if (maxAge === undefined) return {};
  const ofAge: FenceCases = {
    'a token that is too old is rejected, also of a holder that came in time': [
      atEdge(({ refusedMs }) => [olderThan(timeAgo(refusedMs))]),
      onOldKey((newest) => [staleClaim(newest), staleWrite(newest), writes(timeAgo(0))]),
    ],
    'a token that is not yet too old is accepted': [
      atEdge(() => {
        const young = timeAgo(maxAge - SKEW_MS);
        return [claims(young), writes(young), reads(young, 'its text')];
      }),
    ],
  };
  if (!store.prune) return ofAge;
  return {
    ...ofAge,
    [OVERLAPPING]: [atEdge((edge) => [besidePrunes(edge, inTurn(FENCE_CASES[OVERLAPPING]!))])],
    'a key that was forgotten by a clock ahead keeps its text, and rejects what it had rejected': [
      onOldKey((newest) => {
        const live = timeAgo(0);
        return [
          forget(newest + 1n),
          olderThan(newest),
          staleClaim(newest, 'another'),
          claims(live),
          reads(live, 'its text', newest),
        ];
      }),
    ],
    'a key whose token is not yet too old still rejects older holders after a prune': [younger],
    'older holders are rejected all the while their keys are pruned': Array.from(
      { length: ROUNDS },
      (_none, round) => on(String(round), crowd),
    ),
    'a writer paused between its check and its write loses no update of a newer one that was pruned':
      [pruned],
  };
}

/** Holders that came before this one are rejected. */
const olderThan = (newest: bigint): FenceStep =>
  inTurn([staleClaim(newest - 1n), staleWrite(newest - 2n)]);

const forget =
  (before: bigint): FenceStep =>
  async (store) => {
    await store.prune!({ before: String(before) });
  };

/** Runs the step while the store forgets what it may, again and again. */
const besidePrunes =
  ({ refusedMs }: Edge, step: FenceStep): FenceStep =>
  async (...given) => {
    let isOver = false;
    const pruning = async (): Promise<void> => {
      for (; !isOver; await sleep(Math.random() * 3)) await forget(timeAgo(refusedMs))(...given);
    };
    await Promise.all([step(...given).finally(() => (isOver = true)), pruning()]);
  };

/** Steps whose tokens depend on the ages that the store accepts. */
function atEdge(steps: (edge: Edge, store: FenceStore) => readonly FenceStep[]): FenceStep {
  return async (store, resource, amounts) => {
    const edge = await findEdge(store, resource);
    await inTurn(steps(edge, store))(store, resource, amounts);
  };
}

/** @throws Error when the store judges ages otherwise than its `maxAge` says */
async function findEdge(store: FenceStore, resource: string): Promise<Edge> {
  let [refusedMs, admittedMs] = [store.maxAge! + SKEW_MS, store.maxAge! - SKEW_MS];
  const refuses = (ageMs: number): Promise<boolean> =>
    isRefused(store, store.claim(ticketFor(`${resource}:${ageMs}`, timeAgo(ageMs))));
  const isRight = (await refuses(refusedMs)) && !(await refuses(admittedMs));
  demand(isRight, 'it does not reject the tokens that are older than its maxAge, and these only');
  for (let count = 0; count < MOST_TRIES && refusedMs - admittedMs > 1; count += 1) {
    const [middleMs, startMs] = [(refusedMs + admittedMs) / 2, performance.now()];
    // A token may become too old on its way.
    if (await refuses(middleMs))
      refusedMs = Math.min(refusedMs, middleMs + performance.now() - startMs);
    else admittedMs = middleMs;
  }
  // Date.now() tells whole milliseconds, so each token is a little older than it says.
  return { admittedMs, refusedMs: refusedMs + 1 };
}

async function untilOld(token: bigint, { refusedMs }: Edge): Promise<void> {
  while (token >= timeAgo(refusedMs)) await sleep(5);
}

/** Steps on a key that has a text, and whose newest token has become too old. */
function onOldKey(steps: (newest: bigint) => readonly FenceStep[]): FenceStep {
  return async (store, resource, amounts) => {
    const edge = await findEdge(store, resource);
    let [newest, isTooLate] = [0n, true];
    // A token may become too old on its way, on a slow machine.
    for (let lifeMs = LIFE_MS; isTooLate && lifeMs < SKEW_MS / 4; lifeMs *= 2) {
      newest = timeAgo(edge.admittedMs - lifeMs);
      const by = ticketFor(resource, newest);
      isTooLate = await isRefused(store, store.write(by, textBy(by), noPause));
    }
    await untilOld(newest, edge);
    await inTurn(steps(newest))(store, resource, amounts);
  };
}

/** The keys of these tokens are forgotten later, if at all. */
const younger = atEdge(({ admittedMs, refusedMs }, { maxAge }) => {
  const keys: (readonly [name: string, newest: bigint])[] = [];
  for (let ms = LEAST_YOUNGER_MS; ms < maxAge! / 2; ms *= FURTHER)
    keys.push([String(ms), timeAgo(admittedMs - ms)]);
  return [
    ...keys.map(([name, newest]) => on(name, attempt('write')(newest))),
    forget(timeAgo(refusedMs)),
    ...keys.map(([name, newest]) => on(name, olderThan(newest))),
  ];
});

/** None of the older ones comes in, from before their keys may be forgotten until afterwards. */
const crowd = atEdge((edge) => {
  const newest = timeAgo(edge.admittedMs - LIFE_MS);
  const older: FenceStep = async (...given) => {
    for (; timeAgo(edge.refusedMs) < newest + AFTERWARDS; await nextTurn())
      await olderThan(newest)(...given);
  };
  const onEach = (step: FenceStep): FenceStep =>
    atOnce(Array.from({ length: KEYS }, (_none, index) => on(String(index), step)));
  // If the newest comes too late and is rejected, so is all the more the older one.
  return [onEach(attempt('claim')(newest)), besidePrunes(edge, onEach(older))];
});

/** Brings back what the older one saw, for the newer one's token is gone. */
const pruned: FenceStep = async (store, resource, amounts) => {
  const edge = await findEdge(store, resource);
  const newest = timeAgo(edge.admittedMs - LIFE_MS);
  const newer = ticketFor(resource, newest);
  const tickets = [ticketFor(resource, newest - 1n), ticketFor(resource, timeAgo(0))] as const;
  // A wrong store does not wait: the newer token has to become too old meanwhile.
  const gateMs = amounts.gateMs + 2 * LIFE_MS;
  await interleave(store, tickets, gateMs, async (history) => {
    if (await history.claim(newer)) await history.readAndWrite(newer, noPause);
    await untilOld(newest, edge);
    await forget(newest + 1n)(store, resource, amounts);
  });
};
