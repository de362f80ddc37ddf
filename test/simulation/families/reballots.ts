import type { Chance } from '../world/chance.ts';
import type { ClientProcess } from '../world/client-process.ts';
import { broke } from '../world/run-context.ts';
import type { RunContext } from '../world/run-context.ts';
import { EPOCH_MS } from '../world/simulated-process.ts';
import { Stage } from '../world/stage.ts';

const ROUNDS = 6;
/** Connecting, joining, and repeating releases. */
const SETTLING_MS = 100;
/** Lead of the clock of the first holder ahead of the others: its tokens make their ballots too low. */
const AHEAD_MS = 60_000;
const [FIRST, SECOND, THIRD] = [0, 1, 2];

/** The nodes in one round. */
interface Round {
  readonly stage: Stage;
  readonly chance: Chance;
  /** Nodes, one less than a quorum, that have not seen the first holder. */
  readonly behind: readonly number[];
  /** Has seen the first holder, and is the only one that the second ballot of the second reaches. */
  readonly reached: number;
  /** Have seen the first holder too. */
  readonly others: readonly number[];
}

/**
 * The shortest way from votes for an older ballot that count for a newer one to a token that is granted twice:
 *
 * 1. The first client is granted f by a majority, and releases.
 * 2. The second asks with a ballot below f. The nodes that missed f accept it; the others say f. So it asks again, with
 *    f + 1, which arrives at one node only. That is no majority for f + 1; counted together with the accepts of the first
 *    ballot it would be one.
 * 3. The third, which doesn't reach that one node, asks the others. They have seen nothing above f, and grant f + 1.
 *
 * Nor do these nodes hold the lock for as long as the second ballot would make its holder believe.
 */
export async function playReballots(run: RunContext, clients: ClientProcess[]): Promise<void> {
  const stage = new Stage(run, clients);
  const chance = run.chance.branch('reballots');
  for (const client of clients) client.calm();
  await stage.advance(SETTLING_MS);
  for (let round = 0; round < ROUNDS; round += 1) {
    const nodes = chance.shuffled(stage.servers.keys());
    const missing = nodes.length - run.plan.quorum;
    const behind = nodes.slice(0, missing);
    const [reached, ...others] = nodes.slice(missing) as [number, ...number[]];
    await play({ stage, chance, behind, reached, others });
    await stage.advance(2 * run.plan.maxTtlMs + SETTLING_MS);
  }
}

async function play(round: Round): Promise<void> {
  const { stage, chance, reached } = round;
  await raiseFences(round);
  stage.part(THIRD, [reached]);
  const mend = trap(round);
  const second = await stage.acquire(SECOND);
  const releases = chance.happens(0.5);
  if (second && releases) await stage.release(SECOND, second);
  const third = await stage.acquire(THIRD, 2 * stage.run.plan.ttlMs);
  if (second && !releases) await stage.release(SECOND, second);
  if (third) await stage.release(THIRD, third);
  else broke(stage.run, 'no-progress', 'the third client did not get the key');
  mend();
  stage.mend(THIRD, [reached]);
}

/** The first holder comes and goes; the nodes that are behind receive nothing of it. */
async function raiseFences({ stage, behind }: Round): Promise<void> {
  const { process } = stage.clients[FIRST]!;
  process.setWallClock(EPOCH_MS + process.nowMs + AHEAD_MS);
  stage.part(FIRST, behind);
  const lock = await stage.acquire(FIRST);
  if (lock === undefined) throw new Error('A free key could not be had.');
  await stage.release(FIRST, lock);
  await stage.advance(SETTLING_MS);
  stage.mend(FIRST, behind);
}

/**
 * The second ballot of the second client arrives at `reached` only: elsewhere it is held back, or lost with its connection.
 * Answers to the first ballot may be so slow that they come when the second one has been sent. Returns what ends it.
 */
function trap({ stage, chance, behind, reached, others }: Round): () => void {
  const { world } = stage.run;
  const { nodes } = stage.clients[SECOND]!;
  const answersAreLate = chance.happens(0.5);
  const answerMs = chance.pick([0, 20]);
  for (const index of [reached, ...others]) {
    const { path } = nodes[index]!.ends;
    path.hold('replies');
    world.after(answerMs, () => path.pass('replies'));
  }
  const ends = [...behind, ...others].map((index) => {
    const node = nodes[index]!;
    const { path } = node.ends;
    const isLate = answersAreLate && behind.includes(index);
    const isHeld = isLate || chance.happens(0.5);
    let held: ('requests' | 'replies')[] = [];
    const hold = (direction: 'requests' | 'replies'): void => {
      path.hold(direction);
      held.push(direction);
    };
    if (isLate) hold('replies');
    node.onReballot = () => {
      node.onReballot = undefined;
      if (isLate) {
        held = [];
        world.after(1, () => path.pass('replies'));
      }
      if (isHeld) hold('requests');
      else node.breakOff('lost with the second ballot');
    };
    return () => {
      node.onReballot = undefined;
      for (const direction of held) path.pass(direction);
    };
  });
  return () => ends.forEach((end) => end());
}
