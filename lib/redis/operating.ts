import type * as port from '../core/nodes/lock-node.ts';
import { NodeNames } from '../core/nodes/node-names.ts';
import type { Environment, TimerHandle } from '../core/environment.ts';
import { IDENTITY_LIFE_MS } from '../core/process-identity.ts';
import { parseRevokeReply } from './commands/replies.ts';
import type { RedisConnection } from './connection/redis-connection.ts';
import { defineScript } from './scripts.ts';

export const REVOKE = defineScript(`
-- REVOKE: put a value in place of o; the lock stays taken as long as it would be, and at least for leastMs. Its process is notified.
-- KEYS: lock floor
-- ARGV: holder o, value "revoked:...", leastMs, channel of its process, c (16 digits; the new floor, or '' for none)
-- Returns ms for which it stays taken; otherwise nothing was written:
--   false: the lock has not this holder, nor, with c, this value;
--   {-1, limit}: c is less than two above the floor, or more than a day ahead; limit and two is neither. One that is the floor already is
--     asked for again: the process is notified once more;
--   error WRONGTYPE: the lock's name holds other data, which is kept. A vote writes a TTL, and a floor.
local call, lock, A = redis.call, KEYS[1], ARGV
local value, c = call('GET', lock), tonumber(A[5])
if value ~= A[1] and not (c and value == A[2]) then return false end
local left, least, floor = call('PTTL', lock), tonumber(A[3]), call('GET', KEYS[2])
if left == -1 or not floor then
  return redis.error_reply('WRONGTYPE ' .. lock .. ' holds data that is no lock')
end
if c then
  local F, time = tonumber(string.sub(floor, 1, 16)), call('TIME')
  local now = time[1] * 1000000 + time[2]
  -- The call whose floor this is may be granted the number above it.
  if c < F + 2 then
    if c == F and value == A[2] then redis.pcall('PUBLISH', A[4], '-1 ' .. lock) end
    return {-1, string.format('%.0f', F)}
  end
  if c > math.max(now + 86400000000, F + 1000000) then return {-1, string.format('%.0f', math.max(now, F))} end
  -- The life of the floor suits the holder, whose number it replaces. Where this one ends early, an older call may be granted.
  call('SET', KEYS[2], A[5] .. ' ' .. A[5], 'KEEPTTL')
end
call('SET', lock, A[2], 'KEEPTTL')
redis.pcall('PUBLISH', A[4], '-1 ' .. lock)
if left >= least then return left end
call('PEXPIRE', lock, least)
return least
`);

/** How many keys one step looks at, and how many steps there are, should a server have many keys of others. */
const KEYS_A_SCAN = 1_000;
const MOST_SCANS = 2_000;

export async function revokeLock(
  connection: RedisConnection,
  { names, holder, value, leastMs, channel, floor }: port.RevokeRequest,
): Promise<port.RevokeReply> {
  const digits = floor === undefined ? '' : String(floor).padStart(16, '0');
  const values = [holder, value, Math.ceil(leastMs), channel, digits];
  const words = [REVOKE.text, 2, ...names.pairs.slice(0, 2), ...values];
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
