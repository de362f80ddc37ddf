import type * as port from '../core/nodes/lock-node.ts';
import { NodeNames } from '../core/nodes/node-names.ts';
import type { Environment, TimerHandle } from '../core/environment.ts';
import { IDENTITY_LIFE_MS } from '../core/process-identity.ts';
import { parseRevokeReply } from './commands/replies.ts';
import type { RedisConnection } from './connection/redis-connection.ts';
import { defineScript } from './scripts.ts';

// These commands are for people: no vote depends on any of this.

export const REVOKE = defineScript(`
-- REVOKE: put a value in place of o; the lock stays taken as long as it would be, and at least for leastMs.
-- KEYS: lock floor
-- ARGV: holder o, value "revoked:...", leastMs
-- Returns ms for which it stays taken; false: the lock has not this holder, and nothing was written;
--   error WRONGTYPE: the lock's name holds other data, which is kept. A vote writes a TTL, and a floor.
local call, lock = redis.call, KEYS[1]
if call('GET', lock) ~= ARGV[1] then return false end
local left, least = call('PTTL', lock), tonumber(ARGV[3])
if left == -1 or call('EXISTS', KEYS[2]) == 0 then
  return redis.error_reply('WRONGTYPE ' .. lock .. ' holds data that is no lock')
end
call('SET', lock, ARGV[2], 'KEEPTTL')
if left >= least then return left end
call('PEXPIRE', lock, least)
return least
`);

/** How many keys one step looks at, and how many steps there are, should a server have many keys of others. */
const KEYS_A_SCAN = 1_000;
const MOST_SCANS = 2_000;

export async function revokeLock(
  connection: RedisConnection,
  { names, holder, value, leastMs }: port.RevokeRequest,
): Promise<port.RevokeReply> {
  const [lock = '', floor = ''] = names.pairs;
  const words = [REVOKE.text, 2, lock, floor, holder, value, Math.ceil(leastMs)];
  return parseRevokeReply(await connection.ask('eval', ...words));
}

export async function listLocks(
  connection: RedisConnection,
  { keyPrefix, keysBegin, most }: port.ListRequest,
): Promise<port.ListReply> {
  // In a cluster a server scans what it has: asked for the marker, it says whether that is where the locks are.
  await connection.ask('exists', new NodeNames(keyPrefix, []).marker);
  const escaped = (keyPrefix + keysBegin).replaceAll(/[\\*?[\]]/g, String.raw`\$&`);
  const names = new Set<string>();
  let cursor = '0';
  for (let scans = 0; scans < MOST_SCANS && names.size <= most; scans += 1) {
    const scan = [cursor, 'MATCH', `${escaped}*`, 'COUNT', KEYS_A_SCAN, 'TYPE', 'string'];
    const reply = await connection.ask('scan', ...scan);
    const [next, found] = reply as [string, string[]];
    for (const name of found) if (!name.startsWith(`${keyPrefix}#`)) names.add(name);
    cursor = next;
    if (cursor === '0') break;
  }
  const isComplete = cursor === '0' && names.size <= most;
  return { kind: 'listed', names: [...names].slice(0, most), isComplete };
}

/** Keeps on one server what this process says of itself. A failure there changes nothing. */
export class IdentityKeeper {
  readonly #environment: Environment;
  #timer: TimerHandle;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Writes it now, and again before it expires where there is a connection. */
  keep(identity: port.LinkSettings['identity'], current: () => RedisConnection | undefined): void {
    this.stop();
    if (identity === undefined) return;
    const { name, text } = identity;
    const write = current()?.ask('set', name, text, 'PX', IDENTITY_LIFE_MS);
    write?.catch(() => undefined);
    const again = () => this.keep(identity, current);
    this.#timer = this.#environment.timers.set(again, IDENTITY_LIFE_MS / 3, true);
  }

  stop(): void {
    this.#environment.timers.clear(this.#timer);
  }
}
