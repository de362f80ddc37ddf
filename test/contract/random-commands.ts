import type { LockNames } from '../../lib/core/nodes/lock-node.ts';
import { seededRandom } from '../support/manual-environment.ts';
import { RETENTION_MS, type ContractClient } from './contract-client.ts';
import type { ContractHarness } from './contract-harness.ts';

const KEYS = ['a', 'b', 'c'];
const HOUR_MICROS = 3_600_000_000;
/**
 * Hours of life, so many that nothing expires during a run; a number per holder, so that which of two holders lives longer
 * never depends on a millisecond.
 */
const HOURS_OF_HOLDER: Readonly<Record<string, number>> = {
  'n1......': 1,
  'n2......': 2,
  'n3......': 3,
  'n4......': 4,
};

/** Step of a random run; the same step is played against every harness. */
export type RandomCommand =
  | {
      readonly kind: 'acquire' | 'extend';
      readonly keys: string[];
      readonly holder: string;
      readonly ballot: number;
      readonly ttlMs: number;
    }
  | {
      readonly kind: 'release' | 'abandon';
      readonly keys: string[];
      readonly holder: string;
      readonly pass: boolean;
    }
  | {
      readonly kind: 'wait';
      readonly keys: string[];
      readonly holder: string;
      readonly ticket: number;
    }
  | { readonly kind: 'giveBack'; readonly keys: string[]; readonly holder: string }
  | {
      readonly kind: 'revoke';
      readonly keys: string[];
      readonly holder: string;
      readonly leastMs: number;
      readonly floor: number | undefined;
    }
  | { readonly kind: 'inspect' | 'deleteLock' | 'deleteFloor'; readonly keys: string[] }
  | { readonly kind: 'unguard' | 'flush' | 'join' | 'otherRetention' };

/** `count` commands over few keys, holders and ballots around `base`, so that they collide often. */
export function randomCommands(seed: number, count: number, base: number): RandomCommand[] {
  const random = seededRandom(seed);
  const below = (limit: number): number => Math.floor(random.fraction() * limit);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)]!;
  const keys = (): string[] => {
    const chosen = KEYS.filter(() => random.fraction() < 0.35);
    return chosen.length > 0 ? chosen : [pick(KEYS)];
  };
  const ballot = (position: number): number => {
    const chance = random.fraction();
    if (chance < 0.03) return base - HOUR_MICROS;
    if (chance < 0.06) return base + 40 * HOUR_MICROS;
    return base + Math.floor(position / 4) + below(12);
  };
  return Array.from({ length: count }, (_, position): RandomCommand => {
    const chance = random.fraction();
    const holder = pick(Object.keys(HOURS_OF_HOLDER));
    const vote = {
      keys: keys(),
      holder,
      ballot: ballot(position),
      ttlMs: HOURS_OF_HOLDER[holder]! * 3_600_000,
    };
    if (chance < 0.42) return { kind: 'acquire', ...vote };
    if (chance < 0.58) return { kind: 'extend', ...vote };
    const pass = below(2) === 0;
    if (chance < 0.66) return { kind: 'release', keys: vote.keys, holder: vote.holder, pass };
    if (chance < 0.74) return { kind: 'abandon', keys: vote.keys, holder: vote.holder, pass };
    const ticket = 1 + below(9);
    if (chance < 0.8) return { kind: 'wait', keys: [pick(KEYS)], holder, ticket };
    if (chance < 0.82) return { kind: 'giveBack', keys: vote.keys, holder };
    if (chance < 0.84) return { kind: 'inspect', keys: vote.keys };
    if (chance < 0.89) {
      // A newer call has a number; people have none.
      const floor = chance < 0.845 ? undefined : vote.ballot;
      return { kind: 'revoke', keys: [pick(KEYS)], holder, leastMs: vote.ttlMs / 2, floor };
    }
    if (chance < 0.93) return { kind: 'deleteLock', keys: [pick(KEYS)] };
    if (chance < 0.96) return { kind: 'deleteFloor', keys: [pick(KEYS)] };
    if (chance < 0.97) return { kind: 'unguard' };
    if (chance < 0.975) return { kind: 'flush' };
    return { kind: chance < 0.99 ? 'join' : 'otherRetention' };
  });
}

/** Facts that can be compared after one command. */
export interface PlayedCommand {
  readonly kind: string;
  readonly reply: Record<string, unknown> | null;
  readonly keys: readonly unknown[];
}

/** Plays one command and tells what can be compared: reply without clocks, then owners and floors of every key. */
export async function play(
  command: RandomCommand,
  client: ContractClient,
  harness: ContractHarness,
): Promise<PlayedCommand> {
  const reply = withoutClocks(await perform(command, client, harness));
  const keys = await stateOf(harness);
  // The time for which a lock is kept ends on one server while the other is asked.
  for (const lock of harness.names(...KEYS).locks)
    if ((await harness.readLock(lock))?.holder.startsWith('#')) await harness.deleteLock(lock);
  return { kind: typeof reply?.kind === 'string' ? reply.kind : 'fault', reply, keys };
}

/** Owners and floors of every key. A lock that is kept for somebody reads as a free one, which it is a moment later. */
export function stateOf(harness: ContractHarness) {
  const names = harness.names(...KEYS);
  return Promise.all(
    KEYS.map(async (key, index) => {
      const [lock, floor] = [
        await harness.readLock(names.locks[index]!),
        await harness.readFloor(names.pairs[2 * index + 1]!),
      ];
      return {
        key,
        holder: lock === null || lock.holder.startsWith('#') ? null : lock.holder,
        floor: floor?.floor ?? 0,
        previous: floor?.previous ?? 0,
      };
    }),
  );
}

export async function perform(
  command: RandomCommand,
  client: ContractClient,
  harness: ContractHarness,
): Promise<unknown> {
  const names = 'keys' in command ? harness.names(...command.keys) : undefined;
  switch (command.kind) {
    case 'acquire':
      return client.acquire(names as LockNames, command.holder, command.ballot, command.ttlMs);
    case 'extend':
      return client.extend(names as LockNames, command.holder, command.ballot, command.ttlMs);
    case 'release':
      return client.release(names as LockNames, command.holder, { pass: command.pass });
    case 'abandon':
      return client.abandon(names as LockNames, command.holder, command.pass);
    case 'wait': {
      const { holder, ticket } = command;
      return client.stand(names as LockNames, holder, { ticket, channel: 'turns:listened' });
    }
    case 'giveBack':
      return client.release(names as LockNames, `#${command.holder}`);
    case 'revoke':
      return client.revoke(names as LockNames, command.holder, command.leastMs, command.floor);
    case 'inspect':
      return client.inspect(names as LockNames);
    case 'deleteLock':
      return harness.deleteLock(names!.locks[0]!);
    case 'deleteFloor':
      return harness.deleteFloor(names!.pairs[1]!);
    case 'unguard':
      return harness.deleteMarker();
    case 'flush':
      return harness.flush();
    case 'join':
      return client.join();
    case 'otherRetention':
      return client.join(0, { floorRetentionMs: RETENTION_MS + 1 });
  }
}

/** A reply of which equal commands at different moments, and of two servers, have the same. */
export function withoutClocks(reply: unknown): Record<string, unknown> | null {
  if (typeof reply !== 'object' || reply === null) return null;
  const {
    nowMicros: _now,
    remainingMs,
    freeInMs: _freeInMs,
    limit: _limit,
    message: _message,
    server: _server,
    ...rest
  } = reply as Record<string, unknown>;
  // Lives differ by hours: half hours tell them apart without depending on the time a run takes.
  const life =
    typeof remainingMs === 'number' && remainingMs > 0
      ? Math.round(remainingMs / 1_800_000)
      : remainingMs;
  return { ...rest, life };
}
