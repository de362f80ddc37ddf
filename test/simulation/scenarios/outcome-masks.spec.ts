import { describe, expect, it } from '@jest/globals';
import { isRedlockError } from '../../../lib/core/errors.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import { count, MaskedNodes, masksOf } from './outcome-masks.ts';
import type { Mask } from './outcome-masks.ts';
import { EPOCH_MS } from '../world/simulated-process.ts';
import { Stage } from '../world/stage.ts';
import type { Outcome } from '../world/stage.ts';

// Combinations, all of them, of what nodes can do with an acquire, an extend or a release.

const TTL_MS = 1_000;
const NODE_TIMEOUT_MS = 100;
/** A node that does not answer takes one node timeout; the rest is for another ballot. */
const WAIT_MS = 1.5 * NODE_TIMEOUT_MS;

interface Case {
  readonly mask: Mask;
  readonly stage: Stage;
  readonly nodes: MaskedNodes;
  readonly quorum: number;
  readonly key: string;
}

/** Plays every mask, each on a key of its own; names the mask when it breaks an expectation. Returns how many there were. */
async function forAllMasks(
  nodes: number,
  play: (the: Case) => Promise<unknown>,
  expected: (the: Case) => unknown,
) {
  const stage = await Stage.open({ nodes, clients: 1, ttlMs: TTL_MS });
  const quorum = Math.floor(nodes / 2) + 1;
  const masks = masksOf(nodes);
  for (const [number, mask] of masks.entries()) {
    const key = `key-${number}`;
    const the = { mask, stage, quorum, key, nodes: new MaskedNodes(stage, mask, key) };
    const outcome = await play(the);
    expect({ mask, outcome }).toEqual({ mask, outcome: expected(the) });
  }
  await stage.close();
  return masks.length;
}

const newer = ({ stage }: Case) => Math.floor((EPOCH_MS + stage.nowMs) * 1_000) + 3_600_000_000;

function nameOf(outcome: Outcome<unknown>): string {
  if ('value' in outcome) return 'done';
  return isRedlockError(outcome.error) ? outcome.error.code : String(outcome.error);
}

async function acquireAll({ stage, key }: Case): Promise<Lock> {
  const lock = await stage.do(0, ({ redlock }) => redlock.acquire(key, { extend: false }));
  // Slowest node has it too.
  await stage.advance(20);
  return lock;
}

describe.each([3, 5])('On %d nodes', (nodes) => {
  it('acquire succeeds where a quorum accepts this ballot or a higher one, and leaves nothing behind where not', async () => {
    const played = await forAllMasks(
      nodes,
      async (the) => {
        const { stage, key, nodes: masked } = the;
        const fence = newer(the);
        masked.apply(fence, 'OOM');
        const started = stage.start(0, ({ redlock }) => redlock.acquire(key, { wait: WAIT_MS }));
        const calledAtMs = stage.nowMs;
        const outcome = await stage.settle(started);
        const inTime = stage.nowMs - calledAtMs < WAIT_MS + 20;
        const lock = 'value' in outcome ? outcome.value : undefined;
        // Token must be above the newer one that a node had seen if that node helped.
        const helped = count(the.mask, 'granted') < the.quorum;
        const isNewer = lock === undefined || !helped || lock.token.value > fence;
        // Contention is no outage: where a quorum answered, others hold it.
        const answered = count(the.mask, 'granted', 'stale', 'held') >= the.quorum;
        const names = answered ? ['LOCK_BUSY'] : ['LOCK_BUSY', 'QUORUM_UNAVAILABLE'];
        const isRight = lock !== undefined || names.includes(nameOf(outcome));
        const holds = lock && masked.owners().filter((owner) => owner === lock.token.holder).length;
        await masked.end();
        if (lock) await stage.do(0, () => lock.release());
        await stage.advance(20);
        return {
          result: lock ? 'done' : 'refused',
          isRight,
          inTime,
          isNewer,
          held: holds === undefined || holds >= the.quorum,
          left: masked.owners(),
          // An abandoned attempt leaves every fence where it was.
          fences: lock ? [] : masked.fences().map((left) => left === fence || left),
        };
      },
      ({ mask, quorum, nodes: masked }) => {
        const wins = count(mask, 'granted', 'stale') >= quorum;
        return {
          result: wins ? 'done' : 'refused',
          isRight: true,
          inTime: true,
          isNewer: true,
          held: true,
          left: masked.foreignOwners(),
          fences: wins ? [] : mask.map((one) => (one === 'held' || one === 'stale' ? true : 0)),
        };
      },
    );
    expect(played).toBe(nodes === 3 ? 216 : 252);
  });

  it('extend succeeds with a quorum, is a loss where no quorum is left, and else leaves the lock as it was', async () => {
    const played = await forAllMasks(
      nodes,
      async (the) => {
        const { stage, nodes: masked } = the;
        const lock = await acquireAll(the);
        // A server without memory still extends.
        masked.apply(lock.token.value + 1, 'BUSY');
        const outcome = await stage.settle(stage.start(0, () => lock.extend()));
        const isHeld = lock.isHeld;
        await masked.end();
        await stage.do(0, () => lock.release());
        await stage.advance(20);
        return { result: nameOf(outcome), isHeld, left: masked.owners() };
      },
      ({ mask, quorum, nodes: masked }) => {
        const extended = count(mask, 'granted') >= quorum;
        const lost = count(mask, 'held', 'stale') > mask.length - quorum;
        return {
          result: extended ? 'done' : lost ? 'LOCK_LOST' : 'QUORUM_UNAVAILABLE',
          isHeld: !lost,
          left: masked.foreignOwners(),
        };
      },
    );
    expect(played).toBe(nodes === 3 ? 216 : 252);
  });

  it('release is done within the node timeout, reaches every node, and touches no other holder', async () => {
    const played = await forAllMasks(
      nodes,
      async (the) => {
        const { stage, nodes: masked } = the;
        const lock = await acquireAll(the);
        masked.apply(lock.token.value + 1, 'READONLY');
        const calledAtMs = stage.nowMs;
        const outcome = await stage.settle(stage.start(0, () => lock.release()));
        const inTime = stage.nowMs - calledAtMs < NODE_TIMEOUT_MS + 20;
        await masked.end();
        return { result: nameOf(outcome), inTime, left: masked.owners() };
      },
      ({ nodes: masked }) => ({ result: 'done', inTime: true, left: masked.foreignOwners() }),
    );
    expect(played).toBe(nodes === 3 ? 216 : 252);
  });
});
