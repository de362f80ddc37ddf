import { setTimeout as sleep } from 'node:timers/promises';
import type { FenceHistory } from './fence-conformance-history.ts';
import { demand, noPause, ticket, type FenceStore, type FenceTicket } from '../fence-store.ts';

/** Longer than the rest of a write that does not wait for it. */
const PAUSE_MS = 100;

/**
 * A write without its pause can't be held where wrong stores lose updates, so that they would pass.
 *
 * @throws Error when the write ends before its pause
 */
export async function demandPause(store: FenceStore, resource: string): Promise<void> {
  let isOver = false;
  await store.write(ticket(`${resource}:pause`, 1), 'paused', async () => {
    await sleep(PAUSE_MS);
    isOver = true;
  });
  demand(
    isOver,
    'write did not await pause(): await it between the check and the write, or right before them when they are one step',
  );
}

/**
 * The older holder is held between its check and its write. Meanwhile a newer one works. A right store makes the newer wait (the
 * gate then opens after `gateMs`) or refuses the older; a wrong one loses an update.
 */
export async function interleaveFenceWriters(
  history: FenceHistory,
  older: FenceTicket,
  gateMs: number,
  work: () => Promise<void>,
): Promise<void> {
  let open!: () => void;
  const isOpen = new Promise<void>((resolve) => (open = resolve));
  let enter!: () => void;
  const hasEntered = new Promise<void>((resolve) => (enter = resolve));
  const olderWrite = history.readAndWrite(older, noPause, () => {
    enter();
    return isOpen;
  });
  // The older may also end without passing the gate.
  await Promise.race([hasEntered, Promise.allSettled([olderWrite])]);
  const newerWork = work();
  const timer = setTimeout(open, gateMs);
  await Promise.allSettled([newerWork]);
  clearTimeout(timer);
  open();
  await Promise.all([olderWrite, newerWork]);
}
