import { FencedUsageError, StaleTokenError } from '../../../lib/core/errors.ts';
import { Fenced, LockSignal, lockSignal, type FencedOptions } from '../../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../../lib/testing/index.ts';
import type { MemoryLockNode } from '../../../lib/testing/index.ts';
import { Gate } from './critical-section.ts';

/** One try only: tests of errors should not wait. */
const options = { wait: 0, ttl: 300 } satisfies FencedOptions;

/** Locked methods that end as their names say, for handlers of every transport. */
export class GuardedSeats {
  entered = new Gate();

  @Fenced('seat:1', options)
  async book(): Promise<string> {
    return 'booked';
  }

  /** Until its lock is lost. */
  @Fenced('seat:1', options)
  async hold(@LockSignal() signal = lockSignal()): Promise<string> {
    this.entered.open();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return 'held';
  }

  async stale(): Promise<string> {
    throw new StaleTokenError('seat:1', '33', '34');
  }

  /** An error of another copy of the package: same brand and code, another class. */
  async foreign(): Promise<string> {
    const error = new StaleTokenError('seat:1', '33', '34');
    throw Object.assign(new Error(error.message), {
      [Symbol.for('nestjs-fenced-lock/error')]: true,
      code: error.code,
      key: error.key,
      token: error.token,
    });
  }

  /** A fault of the application. */
  async misuse(): Promise<string> {
    throw new FencedUsageError('used wrongly');
  }

  async other(): Promise<string> {
    throw new Error('something else');
  }
}

export type Answer = Record<string, unknown>;

/**
 * Brings about each error in an application over `nodes` and collects what `call` was answered, by the name of the error.
 * It ends with all nodes killed.
 */
export async function answersToAll(
  nodes: readonly MemoryLockNode[],
  seats: GuardedSeats,
  call: (method: string) => Promise<Answer>,
): Promise<Record<string, Answer>> {
  const answers: Record<string, Answer> = { done: await call('book') };
  const other = await occupy(nodes, 'seat:1');
  answers.busy = await call('book');
  await other.release();
  const holding = call('hold');
  await seats.entered.opened;
  const newer = await occupy(nodes, 'seat:1', { takeOver: true });
  answers.lost = await holding;
  await newer.release();
  answers.stale = await call('stale');
  answers.foreign = await call('foreign');
  answers.misuse = await call('misuse');
  answers.other = await call('other');
  for (const node of nodes) node.kill();
  answers.outage = await call('book');
  return answers;
}

/** Nodes and options of the module for {@link answersToAll}. */
export function guardedNodes() {
  const nodes = createMemoryNodes(3);
  return { nodes, redlock: { nodes, nodeTimeout: 50, shutdownTimeout: 0 } };
}

/** What every transport answers, by the name of the error. */
export const MEANINGS = {
  busy: { code: 'LOCK_BUSY', retryAfterSeconds: 10 },
  lost: { code: 'LOCK_LOST' },
  stale: { code: 'STALE_TOKEN', key: 'seat:1', token: '33' },
  foreign: { code: 'STALE_TOKEN', key: 'seat:1', token: '33' },
  outage: { code: 'QUORUM_UNAVAILABLE', retryAfterSeconds: 1 },
} as const;
