import type { HeldLock } from '../../../../lib/core/holding/held-lock.ts';
import { KeyTable } from '../../../../lib/core/holding/key-table.ts';
import type { AcquireRequest, LockNode } from '../../../../lib/core/nodes/lock-node.ts';
import type { AcquireOptions, RedlockOptions } from '../../../../lib/core/options/options.ts';
import { resolveAcquire } from '../../../../lib/core/options/resolve-options.ts';
import { Acquisition } from '../../../../lib/core/waiting/acquisition.ts';
import { Admission } from '../../../../lib/core/waiting/admission.ts';
import { scriptedSet } from './scripted-node.ts';

export const ACCEPTED = { kind: 'accepted' };
export const OOM = { kind: 'failed', nothingWritten: true, reason: 'error', message: 'OOM' };
/** HELD names the key at `index` in order. */
export const held = (index = 0, holder = 'elsewhere') => ({
  kind: 'held',
  index,
  holder,
  remainingMs: 60_000,
  floor: 0,
});

type CallOptions = AcquireOptions & { readonly enclosing?: readonly HeldLock[] };

/** Three scripted nodes that vote, and callers by the names of their keys. */
export function newRoom({ concurrentTries = 512, ...options }: RedlockOptions = {}) {
  const world = scriptedSet({ size: 3, ttl: 10_000, retry: { maxDelay: 20 }, ...options });
  const { set, nodes, environment } = world;
  const table = new KeyTable(set);
  const shared = { set, table, admission: new Admission(concurrentTries), onEnd: () => undefined };
  world.connect();
  let leaseEndsAtMs = 0;
  const setLease = (remainingMs: number) => {
    leaseEndsAtMs = set.nowMs + (remainingMs < 0 ? 86_400_000 : remainingMs);
  };
  // Places in line are given at once, as long as the lease runs that votes named last.
  const wait: LockNode['wait'] = (_, settle) => {
    const freeInMs = leaseEndsAtMs - set.nowMs;
    if (freeInMs > 0) queueMicrotask(() => settle({ kind: 'waiting', ticket: 1, freeInMs }));
    return false;
  };
  for (const node of nodes) Object.assign(node, { wait });
  // Answers take no time here: the round trip stays at the 2 ms that a service begins with.
  set.measured = () => undefined;
  let tickets = 0;
  const call = (keys: string, { enclosing, ...given }: CallOptions = {}) => {
    const settings = resolveAcquire(set.options, given);
    const ticket = (tickets += 1);
    const acquisition = new Acquisition(shared, keys.split(''), settings, ticket, enclosing);
    const outcome = acquisition.run().then(
      (lock) => ({ code: 'granted', lock, causes: [] as object[] }),
      ({ code, causes }) => ({ code, lock: undefined, causes }),
    );
    return Object.assign(acquisition, { outcome });
  };
  /** The keys that are being asked for, one try after the other. */
  const tries = () =>
    nodes[0]!.waiting.flatMap(({ name, request }) => {
      const { locks } = (request as AcquireRequest).names;
      return name === 'acquire' ? locks.map((lock) => lock.at(-1)).join('') : [];
    });
  /** Every node answers its oldest vote, and what follows from that happens. */
  const answer = async (...replies: object[]) => {
    const [{ remainingMs = 0 }] = replies as [{ readonly remainingMs?: number }];
    setLease(remainingMs);
    for (const [index, node] of nodes.entries())
      if (node.waiting.some(({ name }) => name === 'acquire'))
        node.answer('acquire', replies[index % replies.length]!);
    await environment.flush();
  };
  const hold = async (keys: string) => {
    const { outcome } = call(keys);
    await answer(ACCEPTED);
    return (await outcome).lock!;
  };
  const release = async (lock: HeldLock) => {
    void lock.release();
    await environment.flush();
  };
  const record = (key: string) => table.use(key);
  const chance = (fraction: number) => (environment.random.fraction = () => fraction);
  const advance = (ms: number) => environment.advance(ms);
  const flush = () => environment.flush();
  return {
    ...world,
    table,
    setLease,
    call,
    tries,
    answer,
    hold,
    release,
    record,
    chance,
    advance,
    flush,
  };
}

/** The key `a` may be free, but for a moment it is the turn of others: who comes now tries late. */
export function delayTries({ record, set }: ReturnType<typeof newRoom>): void {
  const { nowMs } = set;
  record('a').foreign = { untilMs: nowMs + 60_000, freeAtMs: nowMs, causes: () => [] };
}
