import { FenceHistory } from './fence-conformance-history.ts';
import { demand, noPause, ticket, type FenceStore } from '../fence-store.ts';

/**
 * The older holder is held between its check and its write. Meanwhile a newer one claims, reads and writes. A right store
 * makes the newer wait (the gate then opens after `gateMs`) or refuses the older; a wrong one loses an update.
 */
export async function interleaveFenceWriters(
  store: FenceStore,
  resource: string,
  gateMs: number,
): Promise<void> {
  const [older, newer] = [ticket(resource, 1), ticket(resource, 2)];
  const history = new FenceHistory(store, resource);
  await store.claim(older);
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
  const newerWork = (async () => {
    demand(await history.claim(newer), 'the newer claim was refused');
    demand(await history.readAndWrite(newer, noPause), 'the newer write was refused');
  })();
  const timer = setTimeout(open, gateMs);
  await Promise.allSettled([newerWork]);
  clearTimeout(timer);
  open();
  await Promise.all([olderWrite, newerWork]);
  await history.check(newer);
}
