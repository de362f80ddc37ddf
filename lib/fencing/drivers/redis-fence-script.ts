import { FencedUsageError } from '../../core/errors.ts';
import { types } from 'node:util';
import { kindOf } from '../../core/options/option-names.ts';
import type { FenceClaim } from '../fence-claim.ts';

const SLOTS = 16_384;

/** Keys whose names stand for something else: that of the fence of another key, or of a floor. */
const TAKEN = /^#*\{[^{}]+\}$|^#+floor:\{[^{}]+\}$/;

/**
 * A key has a hash tag, or is hashed whole; so is its fence, unless a brace inside makes that impossible.
 *
 * The key x becomes {x}, so the key {x} becomes #{x}, and that one ##{x}: no two keys share a fence. As #floor:{x} may be a floor, the
 * key #floor:{x} becomes ##floor:{x}, and so on.
 *
 * @throws FencedUsageError
 */
export function hashedLike(key: string): string {
  if (!key.includes('{') && !key.includes('}')) return `{${key}}`;
  if (TAKEN.test(key)) return `#${key}`;
  if (hasTag(key)) return key;
  throw new FencedUsageError(
    `No fence can share the hash slot of ${JSON.stringify(key)}: its braces are no hash tag. Use a key such as 'seat:{12A}'.`,
    [key],
  );
}

/** The key that became this name; undefined for the name of a floor, and for what is no name of a fence. */
export function keyOfFence(name: string): string | undefined {
  if (/^\{[^{}]+\}$/.test(name)) return name.slice(1, -1);
  if (!hasTag(name) || /^#floor:\{[^{}]+\}$/.test(name)) return undefined;
  return TAKEN.test(name) ? name.slice(1) : name;
}

function hasTag(name: string): boolean {
  const open = name.indexOf('{');
  return open >= 0 && name.indexOf('}', open) > open + 1;
}

/** Of every slot, made when the first one is needed. */
let floors: readonly string[] | undefined;

/**
 * The name of the floor for this fence: there is one per hash slot, as a script on Redis Cluster reaches no other slot, and the same
 * on a single server, which may join a cluster one day.
 *
 * @param name that of a fence
 */
export function floorOf(name: string): string {
  floors ??= floorNames();
  return floors[hashSlot(name)]!;
}

/** In each slot the first number, in base 36, that is hashed to it. */
function floorNames(): readonly string[] {
  const names: string[] = Array.from({ length: SLOTS });
  for (let number = 0, left = SLOTS; left > 0; number += 1) {
    const name = `#floor:{${number.toString(36)}}`;
    const slot = hashSlot(name);
    if (names[slot] !== undefined) continue;
    names[slot] = name;
    left -= 1;
  }
  return names;
}

/** By the rules of Redis Cluster for a name with a hash tag: the CRC-16 of the tag, in its form XMODEM. */
export function hashSlot(name: string): number {
  const start = name.indexOf('{') + 1;
  const end = name.indexOf('}', start);
  let crc = 0;
  for (let at = start; at < end; at += 1) {
    const unit = name.charCodeAt(at);
    if (unit > 0x7f) return Buffer.from(name.slice(start, end)).reduce(add, 0) % SLOTS;
    crc = add(crc, unit);
  }
  return crc % SLOTS;
}

function add(crc: number, byte: number): number {
  const high = (crc >> 8) ^ byte;
  const mixed = high ^ (high >> 4);
  return ((crc << 8) ^ (mixed << 12) ^ (mixed << 5) ^ mixed) & 0xffff;
}

/** One command that writes: its name, its key, and the rest. */
export type RedisWriteCommand = readonly [
  name: string,
  key: string,
  ...parameters: (string | number | Uint8Array)[],
];

/** As it is sent. */
export type CheckedCommand = readonly [
  name: string,
  key: string | number | Buffer,
  ...parameters: (string | number | Buffer)[],
];

/** Lua passes no more to one call. */
const MAX_ARGUMENTS = 7_000;

/** Redis 6.2 closes the connection behind 1,048,576 in one request. */
const MAX_SENT = 1_000_000;

/**
 * The client would make text of anything: '' of undefined, '[object Object]' of an object, and several arguments of an array.
 *
 * @param clientPrefix the `keyPrefix` of the client, which puts it before the first argument of each command, and no other
 * @throws FencedUsageError when one is no command, has what Redis can't store as it is, or has keys that would miss the prefix
 */
export function checkedCommands(
  commands: unknown,
  claims: readonly FenceClaim[],
  clientPrefix: string,
): readonly CheckedCommand[] {
  const refuse = (why: string): never => {
    throw new FencedUsageError(
      `${why} Nothing was written.`,
      claims.map(({ key }) => key),
    );
  };
  const form = "as in write(token, [['SET', '{12A}:owner', 'ana']])";
  if (!Array.isArray(commands))
    return refuse(`write takes a list of commands, ${form}, not ${kindOf(commands)}.`);
  const all = Array.from(commands, (command: unknown, index): CheckedCommand => {
    const at = `command ${index + 1}`;
    if (!Array.isArray(command))
      return refuse(`write takes a list of commands, ${form}, but ${at} is ${kindOf(command)}.`);
    const [name, key, ...parameters] = command as readonly unknown[];
    if (typeof name !== 'string' || name === '')
      return refuse(
        `The name in ${at} must be a text, not ${name === '' ? 'empty' : kindOf(name)}.`,
      );
    if (parameters.length > MAX_ARGUMENTS)
      return refuse(
        `${name} has ${parameters.length} arguments after its key; a fenced command may have ${MAX_ARGUMENTS}. Send several commands.`,
      );
    const checked = (value: unknown, what: string): string | number | Buffer =>
      storable(value) ??
      refuse(
        `${name} (${at}) takes strings, numbers and bytes, but its ${what} is ${Number.isNaN(value) ? 'NaN' : kindOf(value)}.`,
      );
    const sent = parameters.map((value, position) => checked(value, `argument ${position + 1}`));
    const other = clientPrefix === '' ? undefined : otherKeys(name, sent);
    if (other !== undefined)
      return refuse(
        `${name} (${at}) ${MISSED[other]} (${JSON.stringify(clientPrefix)}). Write one command for each key, or give redisFence a client without a keyPrefix, and whole names of keys.`,
      );
    return [name, checked(key, 'key'), ...sent];
  });
  // The number of its arguments goes with each.
  const count = all.reduce((sum, command) => sum + command.length + 1, 0);
  if (count > MAX_SENT)
    refuse(
      `write has ${all.length} commands, which take ${count} arguments of a script; a request to Redis may have ${MAX_SENT}. Send several writes.`,
    );
  return all;
}

const MISSED = {
  several: 'has several keys, but the client would put its keyPrefix before the first only',
  later:
    'begins with an argument that is no key, but the client would put its keyPrefix before that',
} as const;

/** A copy of bytes, for they may be sent later; ioredis knows them as a Buffer only. */
function storable(value: unknown): string | number | Buffer | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isNaN(value) ? undefined : value;
  return types.isUint8Array(value) ? Buffer.from(value) : undefined;
}

/** What follows the first argument. */
type Parameters = readonly (string | number | Buffer)[];

/**
 * The commands of Redis that can have more than one key, with those that read: by the place of their keys, as `COMMAND INFO` and
 * the list of commands have it. A command that is not here has one key, its first argument.
 */
const SEVERAL_KEYS: readonly (readonly [
  names: string,
  hasMore: (parameters: Parameters) => boolean,
])[] = [
  // Every argument is a key.
  [
    'DEL UNLINK TOUCH EXISTS WATCH MGET PFCOUNT PFMERGE ' +
      'SDIFF SDIFFSTORE SINTER SINTERSTORE SUNION SUNIONSTORE SSUBSCRIBE SUNSUBSCRIBE',
    ({ length }) => length > 0,
  ],
  // Key and value, again and again; or keys and a timeout.
  ['MSET MSETNX BLPOP BRPOP BZPOPMIN BZPOPMAX', ({ length }) => length > 1],
  // Key, path and value; key, time and value.
  ['JSON.MSET TS.MADD', ({ length }) => length > 2],
  // Keys and a path.
  ['JSON.MGET', ({ length }) => length > 1],
  // From one key to another; or a target, a number of keys, and these.
  [
    'COPY RENAME RENAMENX SMOVE LMOVE BLMOVE RPOPLPUSH BRPOPLPUSH LCS ' +
      'GEOSEARCHSTORE ZRANGESTORE ZDIFFSTORE ZINTERSTORE ZUNIONSTORE ' +
      'CMS.MERGE TDIGEST.MERGE TS.CREATERULE TS.DELETERULE',
    () => true,
  ],
  // A key behind an option.
  [
    'SORT SORT_RO GEORADIUS GEORADIUSBYMEMBER',
    (parameters) => parameters.some((each) => /^(store|storedist|by|get)$/i.test(String(each))),
  ],
];

/** The commands whose first argument is no key: a number of keys, a subcommand, an option, a script, or a channel. */
const ANOTHER_FIRST =
  'BITOP LMPOP BLMPOP ZMPOP BZMPOP SINTERCARD ZDIFF ZINTER ZINTERCARD ZUNION MSETEX XREAD XREADGROUP ' +
  'XGROUP XINFO OBJECT MEMORY MIGRATE PFDEBUG EVAL EVAL_RO EVALSHA EVALSHA_RO FCALL FCALL_RO PUBLISH';

const hasMoreKeys = new Map(
  SEVERAL_KEYS.flatMap(([names, hasMore]) =>
    names.split(' ').map((name) => [name, hasMore] as const),
  ),
);
const withAnotherFirst = new Set(ANOTHER_FIRST.split(' '));

/**
 * Where the keys of a command are, when they are not its first argument alone.
 * @param name in any case
 */
export function otherKeys(name: string, parameters: Parameters): 'several' | 'later' | undefined {
  const known = name.toUpperCase();
  if (withAnotherFirst.has(known)) return 'later';
  return hasMoreKeys.get(known)?.(parameters) === true ? 'several' : undefined;
}

/** How many writers' records a fence keeps when a newer token arrives, and for how long after their last write. */
const MAX_OLD_RECORDS = 32;
export const OLD_RECORD_MS = 600_000;

/**
 * Tokens are compared as decimal text, by length and then by digits: Lua numbers can't tell 2^53 from 2^53 + 1.
 *
 * A floor is a number in decimal, `:`, and the time of the newest record that `prune` dropped in the slot, in milliseconds. The latter
 * is left out where the floor, as a time, is not below it. A floor ahead of the clock is no such time: no prune has made it.
 */
export const FENCE_FUNCTIONS = `
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

local function floorAt(key)
  local value = call('GET', key)
  if not value then return '0', 0 end
  call('PERSIST', key)
  local floor, last = string.match(value, '^(%d+):?(%d*)$')
  if not floor then error('The floor ' .. key .. ' is no number. Set it to one of a day ago.', 0) end
  local at = floor / 1000
  if at > now then at = 0 end
  return floor, math.max(at, tonumber(last) or 0)
end
`;

/**
 * Checks the token on every fence and, when it is the newest everywhere, remembers it and runs the commands: all in one step.
 *
 * KEYS: first the fences (hashes with the fields t = token, decimal, and h = holder), then the floor of each, then one key per
 * command. A fence that is not there needs a token that is not below its floor. Without the floor in KEYS a server of a cluster could
 * miss it while their slot moves.
 * ARGV: number of fences · token · holder · writer · number of the write · the writer's oldest write under way · then for each
 * command: its name · number of its arguments after the key · these. A claim has the writer ''.
 * Returns: {'OK', reply …} · {'REPEATED'} · {'STALE', index of the fence, its token, its holder, age}
 *
 * A client that has lost its connection may send a write again. The first fence has a field for each writer: the time of its
 * last write, the oldest one that was under way, and those since then that ran. Newer tokens leave these records for a while,
 * for a write that ran and is sent again must not be called stale. The field d has the time of the newest record that was
 * dropped, as the floor has of fences that `prune` deleted, and `age` is how long ago that is, in milliseconds: a write that was
 * sent earlier may have run.
 *
 * Records are dropped only when a newer token arrives or a higher floor, so that a repeated write without a record is refused all
 * the same.
 */
export const FENCED_WRITE_SCRIPT = shortened(`${FENCE_FUNCTIONS}
local fences, token, holder = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local writer, number, oldest = ARGV[4], ARGV[5], tonumber(ARGV[6])

local function dropRecords(fence)
  local fields, records = call('HGETALL', fence), {}
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 2) == 'w:' then
      records[#records + 1] = {fields[i], tonumber(string.match(fields[i + 1], '^%d+')) or 0}
    end
  end
  table.sort(records, function(a, b) return a[2] > b[2] end)
  for i = #records, 1, -1 do
    local field, last = unpack(records[i])
    if i <= ${MAX_OLD_RECORDS} and last > now - ${OLD_RECORD_MS} then break end
    call('HDEL', fence, field)
    local newest = math.max(last, tonumber(call('HGET', fence, 'd') or 0))
    call('HSET', fence, 'd', math.min(newest, now))
  end
end

local record, dropped = unpack(call('HMGET', KEYS[1], writer, 'd'))
record = record or '0:0:,'
local _, head, from = string.find(record, '^%d+:(%d+):')
local before = string.sub(record, head + 1)
if tonumber(number) < tonumber(from) or string.find(before, ',' .. number .. ',', 1, true) then
  return {'REPEATED'}
end
local isOther = {}
for i = 1, fences do
  local seen, by = unpack(call('HMGET', KEYS[i], 't', 'h'))
  isOther[i] = seen ~= token
  if seen then call('PERSIST', KEYS[i]) end
  local isStale = seen and (newer(seen, token) or (seen == token and by ~= holder))
  if not seen then
    seen, by = floorAt(KEYS[fences + i]), ''
    isStale = newer(seen, token)
  end
  if isStale then
    local _, last = floorAt(KEYS[fences + 1])
    return {'STALE', i, seen, by, now - math.max(tonumber(dropped) or 0, last)}
  end
end
for i = 1, fences do
  if isOther[i] then dropRecords(KEYS[i]) end
  call('HSET', KEYS[i], 't', token, 'h', holder)
end
if writer ~= '' then
  oldest = math.max(oldest, tonumber(from))
  local ran = before .. number .. ','
  if oldest > tonumber(from) then
    local kept = {''}
    for each in string.gmatch(ran, '%d+') do
      if tonumber(each) >= oldest then kept[#kept + 1] = each end
    end
    kept[#kept + 1] = ''
    ran = table.concat(kept, ',')
  end
  call('HSET', KEYS[1], writer, now .. ':' .. oldest .. ':' .. ran)
end

local replies = {'OK'}
local position = 7
for i = 2 * fences + 1, #KEYS do
  local count = tonumber(ARGV[position + 1])
  local reply = call(ARGV[position], KEYS[i], unpack(ARGV, position + 2, position + 1 + count))
  replies[#replies + 1] = reply
  position = position + 2 + count
end
return replies
`);

/** Without indents and spaces: Redis makes a sum of the text of a script for each call. No text in a script may have them. */
export function shortened(script: string): string {
  return script.replaceAll(/\n\s+/g, '\n').replaceAll(/ *(==|~=|<=|\.\.|[-=,+<>*/{}]) */g, '$1');
}
