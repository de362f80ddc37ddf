import type { FenceHistory } from './fence-conformance-history.ts';
import { noPause, type FenceTicket } from '../fence-store.ts';

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
