import { randomBytes } from 'node:crypto';
import {
  FencedUsageError,
  quoteKeys,
  RedlockConfigError,
  StaleTokenError,
} from '../../core/errors.ts';
import { checkFenceArguments } from '../fence-arguments.ts';
import type { FenceEventListener, FenceKeys, FenceOptions, FenceToken } from '../fence.ts';
import { fenceClaims, type FenceClaim } from '../fence-claim.ts';
import { FenceReporter } from '../fence-reporter.ts';

/** How many writers' records a fence keeps when a newer token arrives, and for how long after their last write. */
const MAX_OLD_RECORDS = 32;
const OLD_RECORD_MS = 600_000;

/**
 * Checks the token on every fence and, when it is the newest everywhere, remembers it and runs the commands: all in one step.
 *
 * KEYS: first the fences (hashes with the fields t = token, decimal, and h = holder), then one key per command.
 * ARGV: number of fences · token · holder · writer · number of the write · the writer's oldest write under way · then for each
 * command: its name · number of its arguments after the key · these. A claim has the writer ''.
 * Returns: {'OK', reply …} · {'REPEATED'} · {'STALE', index of the fence, its token, its holder, age}
 *
 * A client that has lost its connection may send a write again. The first fence has a field for each writer: the time of its
 * last write, the oldest one that was under way, and those since then that ran. Newer tokens leave these records for a while,
 * for a write that ran and is sent again must not be called stale. The field d has the time of the newest record that was
 * dropped, and `age` is how long ago that is, in milliseconds: a write that was sent earlier may have run.
 *
 * Records are dropped only when a newer token arrives, so that a repeated write without a record is refused all the same.
 *
 * Tokens are compared as decimal text, by length and then by digits: Lua numbers can't tell 2^53 from 2^53 + 1.
 */
const FENCED_WRITE_SCRIPT = `
local fences, token, holder = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local writer, number, oldest = ARGV[4], ARGV[5], tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

local function dropRecords(fence)
  local fields, records = redis.call('HGETALL', fence), {}
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 2) == 'w:' then
      records[#records + 1] = {fields[i], tonumber(string.match(fields[i + 1], '^%d+')) or 0}
    end
  end
  table.sort(records, function(a, b) return a[2] > b[2] end)
  for i = #records, 1, -1 do
    local field, last = unpack(records[i])
    if i <= ${MAX_OLD_RECORDS} and last > now - ${OLD_RECORD_MS} then break end
    redis.call('HDEL', fence, field)
    local newest = math.max(last, tonumber(redis.call('HGET', fence, 'd') or 0))
    redis.call('HSET', fence, 'd', math.min(newest, now))
  end
end

local record, dropped = unpack(redis.call('HMGET', KEYS[1], writer, 'd'))
record = record or '0:0:,'
local _, head, from = string.find(record, '^%d+:(%d+):')
local before = string.sub(record, head + 1)
if tonumber(number) < tonumber(from) or string.find(before, ',' .. number .. ',', 1, true) then
  return {'REPEATED'}
end
local isOther = {}
for i = 1, fences do
  local seen = redis.call('HMGET', KEYS[i], 't', 'h')
  isOther[i] = seen[1] ~= token
  if seen[1] and (newer(seen[1], token) or (seen[1] == token and seen[2] ~= holder)) then
    return {'STALE', i, seen[1], seen[2], now - (tonumber(dropped) or 0)}
  end
end
for i = 1, fences do
  if isOther[i] then dropRecords(KEYS[i]) end
  redis.call('HSET', KEYS[i], 't', token, 'h', holder)
  redis.call('PERSIST', KEYS[i])
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
  redis.call('HSET', KEYS[1], writer, now .. ':' .. oldest .. ':' .. ran)
end

local replies = {'OK'}
local position = 7
for i = fences + 1, #KEYS do
  local count = tonumber(ARGV[position + 1])
  local reply = redis.call(ARGV[position], KEYS[i], unpack(ARGV, position + 2, position + 1 + count))
  replies[#replies + 1] = reply
  position = position + 2 + count
end
return replies
`;

/** What the fence needs of a client of ioredis, also a cluster one. */
export interface RedisFenceClient {
  eval(script: string, keyCount: number, ...rest: any[]): Promise<unknown>;
}

/** One command that writes: its name, its key, and the rest. */
export type RedisWriteCommand = readonly [
  name: string,
  key: string,
  ...parameters: (string | number | Buffer)[],
];

/** Options of {@link redisFence}. */
export interface RedisFenceOptions extends FenceOptions {
  /** In front of the names of the fences. @default 'fence:' */
  readonly keyPrefix?: string;
}

/** The fence for data in Redis: the token is checked and the data written in one script. */
export interface RedisFence {
  /**
   * Checks the token and runs the commands in one step. They see each other's writes; Redis doesn't roll back when one fails.
   * On Redis Cluster all keys need the hash tag of the lock key, for example lock `seat:{12A}` and data `{12A}:owner`.
   *
   * It runs at most once, also when the client sends it again after its connection broke; then it rejects with a plain `Error` that
   * says that it ran and its replies are lost, or that it is not known whether it ran.
   *
   * @returns one reply per command
   * @throws StaleTokenError when a newer holder reached the fence; nothing was written
   * @throws FencedUsageError when the token is missing, malformed or of another key
   */
  write(
    token: FenceToken | undefined,
    commands: readonly RedisWriteCommand[],
    options?: FenceKeys,
  ): Promise<readonly unknown[]>;
  /**
   * Brings the token to the fence; call it before reading what the writes will depend on.
   * @throws StaleTokenError, FencedUsageError
   */
  claim(token: FenceToken | undefined, options?: FenceKeys): Promise<void>;
  /** The name of a key's fence, in the same hash slot as the key. Never let it expire or be evicted. */
  fenceName(key: string): string;
  /** Calls `listener` for all that happens at this fence from now on, until the returned function is called. */
  observe(listener: FenceEventListener): () => void;
}

/**
 * The fence over a Redis that holds data (not one of the lock nodes' business: any Redis, with persistence and
 * `maxmemory-policy noeviction`, for the fence must not be forgotten).
 *
 * @example
 * ```ts
 * import { Redis } from 'ioredis';
 * import { redisFence } from 'nestjs-fenced-lock/fencing';
 *
 * const fence = redisFence(new Redis('redis://data.example.com'));
 * await fence.write(token, [['HSET', 'seat:12A', 'customer', 'ana']], { keys: ['seat:12A'] });
 * ```
 */
export function redisFence(client: RedisFenceClient, options: RedisFenceOptions = {}): RedisFence {
  checkFenceArguments('redisFence', client, ['eval'], 'a client of ioredis', options, [
    'keyPrefix',
  ]);
  const prefix = options.keyPrefix ?? 'fence:';
  if (typeof prefix !== 'string' || /[{}]/.test(prefix)) {
    throw new RedlockConfigError(
      'keyPrefix',
      prefix,
      'give a string without braces, which would change the hash slot',
    );
  }
  const reporter = new FenceReporter(options);
  const fenceName = (key: string): string => prefix + hashedLike(key);
  return {
    write: async (token, commands, { keys } = {}) => {
      const claims = fenceClaims(token, keys);
      const run = () => write(client, claims, fenceName, commands);
      return reporter.reporting(token, claims, 'write', run);
    },
    claim: async (token, { keys } = {}) => {
      const claims = fenceClaims(token, keys);
      const run = () => evaluate(client, claims, fenceName, [], ['', 0, 0]);
      await reporter.reporting(token, claims, 'claim', run);
    },
    fenceName,
    observe: (listener) => reporter.observe(listener),
  };
}

/**
 * A key has a hash tag, or is hashed whole; so is its fence, unless a brace inside makes that impossible.
 *
 * The key x becomes {x}, so the key {x} becomes #{x}, and that one ##{x}: no two keys share a fence.
 */
function hashedLike(key: string): string {
  if (/^#*\{[^{}]+\}$/.test(key)) return `#${key}`;
  const tag = /\{([^}]+)\}/.exec(key);
  if (tag && key.indexOf('{') === tag.index) return key;
  if (!/[{}]/.test(key)) return `{${key}}`;
  throw new FencedUsageError(
    `No fence can share the hash slot of ${JSON.stringify(key)}: its braces are no hash tag. Use a key such as 'seat:{12A}'.`,
    [key],
  );
}

/** Lua passes no more to one call. */
const MAX_ARGUMENTS = 7_000;

/** The writes of one client, numbered, so that the fence knows one that was sent twice. */
interface Writer {
  readonly field: string;
  next: number;
  readonly underWay: Set<number>;
  /** Those that wait until fewer are under way, in their order. */
  readonly waiting: (() => void)[];
}

/** Of one client. The fence remembers them, so that each costs Redis the more the more there are. */
const MOST_UNDER_WAY = 64;

const writers = new WeakMap<RedisFenceClient, Writer>();

function writerOf(client: RedisFenceClient): Writer {
  const known = writers.get(client);
  if (known) return known;
  const field = `w:${randomBytes(9).toString('base64url')}`;
  const writer: Writer = { field, next: 1, underWay: new Set(), waiting: [] };
  writers.set(client, writer);
  return writer;
}

async function write(
  client: RedisFenceClient,
  claims: readonly FenceClaim[],
  fenceName: (key: string) => string,
  commands: readonly RedisWriteCommand[],
): Promise<readonly unknown[]> {
  const tooLong = commands.find(({ length }) => length - 2 > MAX_ARGUMENTS);
  if (tooLong) {
    throw new FencedUsageError(
      `${tooLong[0]} has ${tooLong.length - 2} arguments after its key; a fenced command may have ${MAX_ARGUMENTS}. Send several commands. Nothing was written.`,
    );
  }
  const writer = writerOf(client);
  const { underWay, waiting } = writer;
  const number = (writer.next += 1);
  underWay.add(number);
  try {
    // A set keeps the order in which its members came.
    const send = () => {
      const [oldest = number] = underWay;
      return evaluate(client, claims, fenceName, commands, [writer.field, number, oldest]);
    };
    if (underWay.size <= MOST_UNDER_WAY) return await send();
    return await new Promise((resolve) => waiting.push(() => resolve(send())));
  } finally {
    underWay.delete(number);
    waiting.shift()?.();
  }
}

async function evaluate(
  client: RedisFenceClient,
  claims: readonly FenceClaim[],
  fenceName: (key: string) => string,
  commands: readonly RedisWriteCommand[],
  identity: readonly [writer: string, number: number, oldest: number],
): Promise<readonly unknown[]> {
  const [first] = claims as readonly [FenceClaim];
  const age = stopwatch();
  const names = [...claims.map(({ key }) => fenceName(key)), ...commands.map(([, key]) => key)];
  const [outcome, ...rest] = (await client.eval(
    FENCED_WRITE_SCRIPT,
    names.length,
    ...names,
    claims.length,
    first.token,
    first.holder,
    ...identity,
    ...commands.flatMap(([name, _key, ...others]) => [name, others.length, ...others]),
  )) as unknown[];
  if (outcome === 'OK') return rest;
  if (outcome === 'REPEATED') {
    throw new Error(
      `The connection to Redis broke before the reply to a write for ${quoteKeys([first.key])}, and the client sent it again. It ran once; its replies are lost.`,
    );
  }
  const [index, currentToken, currentHolder, droppedAge] = rest as [number, string, string, number];
  if (identity[0] !== '' && age() >= droppedAge) {
    throw new Error(
      `A write for ${quoteKeys([first.key])} was refused as stale, but it may have been sent before and have run: that is not known any more. Read the data.`,
    );
  }
  const { key } = claims[index - 1] ?? first;
  throw new StaleTokenError(key, first.token, currentToken, currentHolder);
}

/** Milliseconds since the call, and somewhat more: of two clocks, for one stands still while the machine is suspended. */
function stopwatch(): () => number {
  const [monotonic, wall] = [performance.now(), Date.now()];
  return () => 1.001 * Math.max(performance.now() - monotonic, Date.now() - wall) + 2;
}
