import { FencedUsageError } from '../../core/errors.ts';
import { types } from 'node:util';
import { kindOf } from '../../core/options/option-names.ts';
import { MARGIN_MS } from '../fence-arguments.ts';
import { FIRST_TIME, type FenceClaim } from '../fence-claim.ts';

/** Keys whose names stand for the fence of another key. */
const TAKEN = /^#*\{[^{}]+\}$/;

/**
 * A key has a hash tag, or is hashed whole; so is its fence, unless a brace inside makes that impossible.
 *
 * The key x becomes {x}, so the key {x} becomes #{x}, and that one ##{x}: no two keys share a fence.
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

function hasTag(name: string): boolean {
  const open = name.indexOf('{');
  return open >= 0 && name.indexOf('}', open) > open + 1;
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
const OLD_RECORD_MS = 600_000;

/**
 * Checks the token on every fence and, when it is the newest everywhere, remembers it and runs the commands: all in one step.
 *
 * KEYS: first the fences (hashes with the fields t = token, decimal, and h = holder), then one key per command.
 * ARGV: number of fences · token · holder · writer · number of the write · the writer's oldest write under way · the age in
 * milliseconds from which tokens are refused, or '' · then for each command: its name · number of its arguments after the key ·
 * these. A claim has the writer ''.
 * Returns: {'OK', reply …} · {'REPEATED'} · {'STALE', index of the fence, its token, its holder, age}
 *
 * Tokens are compared as decimal text, by length and then by digits: Lua numbers can't tell 2^53 from 2^53 + 1.
 *
 * Where tokens have an age, a fence expires when its own is an hour too old: then it refuses nothing that is not refused anyway.
 *
 * A client that has lost its connection may send a write again. The first fence has a field for each writer: the time of its
 * last write, the oldest one that was under way, and those since then that ran. Newer tokens leave these records for a while,
 * for a write that ran and is sent again must not be called stale. The field d has the time of the newest record that was
 * dropped, and `age` is how long ago that is, in milliseconds: a write that was sent earlier may have run. No fence expires within
 * an hour of its last write.
 *
 * Records are dropped only when a newer token arrives, or with their fence, so that a repeated write without a record is refused all
 * the same.
 */
export const FENCED_WRITE_SCRIPT = shortened(`
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fences, token, holder = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local writer, number, oldest = ARGV[4], ARGV[5], tonumber(ARGV[6])
local maxAge = tonumber(ARGV[7])

local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

local function keep(fence, newest)
  if maxAge and #newest >= ${FIRST_TIME.length} then
    call('PEXPIREAT', fence, string.format('%.0f', newest / 1000 + maxAge + ${MARGIN_MS}))
  else
    call('PERSIST', fence)
  end
end

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
local first = maxAge and string.format('%.0f', (now - maxAge) * 1000) or '0'
local isOther = {}
for i = 1, fences do
  local seen, by = unpack(call('HMGET', KEYS[i], 't', 'h'))
  isOther[i] = seen ~= token
  if seen then keep(KEYS[i], seen) end
  local isStale = seen and (newer(seen, token) or (seen == token and by ~= holder))
  if not isStale and newer(first, token) then isStale, seen, by = true, first, '' end
  if isStale then
    local last = math.max(tonumber(dropped) or 0, maxAge and now - ${MARGIN_MS} or 0)
    return {'STALE', i, seen, by, now - last}
  end
end
for i = 1, fences do
  if isOther[i] then dropRecords(KEYS[i]) end
  call('HSET', KEYS[i], 't', token, 'h', holder)
  keep(KEYS[i], token)
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
local position = 8
for i = fences + 1, #KEYS do
  local count = tonumber(ARGV[position + 1])
  local reply = call(ARGV[position], KEYS[i], unpack(ARGV, position + 2, position + 1 + count))
  replies[#replies + 1] = reply
  position = position + 2 + count
end
return replies
`);

/** Without indents and spaces: Redis makes a sum of the text of a script for each call. No text in a script may have them. */
function shortened(script: string): string {
  return script.replaceAll(/\n\s+/g, '\n').replaceAll(/ *(==|~=|<=|\.\.|[-=,+<>*/{}]) */g, '$1');
}
