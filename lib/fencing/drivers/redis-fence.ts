import { types } from 'node:util';
import { FencedUsageError } from '../../core/errors.ts';
import { checkOptions, kindOf } from '../../core/options/option-names.ts';
import {
  FENCE_OPTIONS,
  hasMethods,
  checkedKeys,
  MARGIN_MS,
  refuseClient,
  text,
} from '../fence-arguments.ts';
import type { FenceEventListener, FenceKeys, FenceOptions, FenceToken } from '../fence.ts';
import { checkKey, fenceClaims, FIRST_TIME, staleToken, type FenceClaim } from '../fence-claim.ts';
import { FenceReporter } from '../fence-reporter.ts';

/** The part of a client of ioredis, also of a cluster one, that the fence uses. */
export interface RedisFenceClient {
  /** Takes lists among its arguments for what is in them, as ioredis does: a function can't have very many. */
  eval(script: string, keyCount: number, ...rest: any[]): Promise<unknown>;
  /** The options that ioredis was given. */
  readonly options?: {
    /** There may be none: ioredis puts it before the first argument of a command only. */
    readonly keyPrefix?: unknown;
  };
}

/** A command that writes: its name, its key, and the rest. */
export type RedisWriteCommand = readonly [
  name: string,
  key: string,
  ...parameters: (string | number | Uint8Array)[],
];

/** The options of {@link redisFence}. */
export interface RedisFenceOptions extends FenceOptions {
  /** The text in front of the names of the fences. @default 'fence:' */
  readonly keyPrefix?: string;
}

/** The fence for data in Redis: the token is checked and the data written in one script. */
export interface RedisFence {
  /**
   * Checks the token and runs the commands in one step. They see each other's writes; Redis doesn't roll back when one fails.
   * On Redis Cluster all keys need the hash tag of the lock key, for example lock `seat:{12A}` and data `{12A}:owner`.
   *
   * A client that loses its connection before the reply sends a write again, and it may run twice. Where it must not, use
   * `new Redis(url, { maxRetriesPerRequest: 0 })`: then the call rejects as soon as the connection is lost, and nothing is sent again.
   *
   * @returns one reply per command
   * @throws StaleTokenError when a newer holder reached the fence; nothing was written
   * @throws FencedUsageError when the token is missing, malformed or of another key, or a command can't be sent as it is
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
  /** The name of a key's fence, in the same hash slot as the key. Never let it be evicted, nor set its expiry. */
  fenceName(key: string): string;
  /** Calls `listener` for all that happens at this fence from now on, until the returned function is called. */
  observe(listener: FenceEventListener): () => void;
}

/**
 * Checks the token on every fence and, when it is the newest everywhere, remembers it and runs the commands: all in one step.
 *
 * KEYS: first the fences (hashes with the fields t = token, decimal, and h = holder), then one key per command.
 * ARGV: number of fences · token · holder · the age in milliseconds from which tokens are refused, or '' · then for each command:
 * its name · number of its arguments after the key · these.
 * Returns: {'OK', reply …} · {'STALE', index of the fence, its token, its holder}
 *
 * Tokens are compared as decimal text, by length and then by digits: Lua numbers can't tell 2^53 from 2^53 + 1.
 *
 * A fence whose tokens have an age expires when its own is an hour too old: then it refuses nothing that is not refused anyway. The
 * expiry is set whenever a fence is seen, for somebody may have changed it.
 */
const SCRIPT = `
local call = redis.call
local fences, token, holder, maxAge = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local oldest = maxAge and string.format('%.0f', (now - maxAge) * 1000) or '0'
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
for i = 1, fences do
  local seen, by = unpack(call('HMGET', KEYS[i], 't', 'h'))
  if seen then
    keep(KEYS[i], seen)
    if newer(seen, token) or (seen == token and by ~= holder) then return {'STALE', i, seen, by} end
  end
  if newer(oldest, token) then return {'STALE', i, oldest, ''} end
end
for i = 1, fences do
  call('HSET', KEYS[i], 't', token, 'h', holder)
  keep(KEYS[i], token)
end
local replies, position = {'OK'}, 5
for i = fences + 1, #KEYS do
  local last = position + 1 + tonumber(ARGV[position + 1])
  replies[#replies + 1] = call(ARGV[position], KEYS[i], unpack(ARGV, position + 2, last))
  position = last + 1
end
return replies
`;

const REDIS_OPTIONS = {
  ...FENCE_OPTIONS,
  keyPrefix: text(/^[^{}]*$/, 'give a string without braces, which would change the hash slot'),
};

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
  const needs = 'a client of ioredis without a keyPrefix';
  // With a prefix, RENAME would write another key than it was given.
  const isRight = hasMethods(client, ['eval']) && !client.options?.keyPrefix;
  if (!isRight) refuseClient('redisFence', client, needs);
  const checked = checkOptions('redisFence', REDIS_OPTIONS, options);
  const { keyPrefix = 'fence:', maxAge: maxAgeMs, ...listeners } = checked;
  const reporter = new FenceReporter(listeners);
  const fenceName = (key: string): string => {
    checkKey(key);
    return keyPrefix + hashedLike(key);
  };
  const run = async (
    claims: readonly FenceClaim[],
    commands: readonly (readonly unknown[])[],
  ): Promise<readonly unknown[]> => {
    const { token, holder } = claims[0]!;
    const names = [...claims.map(({ key }) => fenceName(key)), ...commands.map(([, key]) => key)];
    const parameters = commands.flatMap(([name, , ...rest]) => [name, rest.length, ...rest]);
    const head = [claims.length, token, holder, maxAgeMs ?? ''];
    const reply = await client.eval(SCRIPT, names.length, names, head, parameters);
    const [outcome, ...replies] = Array.isArray(reply) ? (reply as unknown[]) : [];
    if (outcome === 'OK') return replies;
    if (outcome !== 'STALE')
      throw new FencedUsageError(
        'No answer says whether the token was rejected: the client is inside MULTI, or is a pipeline. Give redisFence a client that sends each command at once.',
        keysIn(claims),
      );
    const [index, currentToken, currentHolder] = replies as [number, string, string];
    throw staleToken(claims[index - 1]!.key, token, currentToken, currentHolder);
  };
  return {
    write: async (token, commands, called) => {
      const claims = fenceClaims(token, checkedKeys('fence.write', called), maxAgeMs);
      const stored = commands.map((command) => storedCommand(command, claims));
      return reporter.reporting(token, claims, 'write', () => run(claims, stored));
    },
    claim: async (token, called) => {
      const claims = fenceClaims(token, checkedKeys('fence.claim', called), maxAgeMs);
      await reporter.reporting(token, claims, 'claim', () => run(claims, []));
    },
    fenceName,
    observe: (listener) => reporter.observe(listener),
  };
}

const keysIn = (claims: readonly FenceClaim[]): string[] => claims.map(({ key }) => key);

/**
 * Copies the command as it is sent. The client would make text of anything: '' of undefined, '[object Object]' of an object.
 * @throws FencedUsageError
 */
function storedCommand(
  [name, key, ...parameters]: RedisWriteCommand,
  claims: readonly FenceClaim[],
): readonly unknown[] {
  return [name, key, ...parameters].map((value: unknown) => {
    if (typeof value === 'string' || (typeof value === 'number' && !Number.isNaN(value)))
      return value;
    // To ioredis, bytes that are no Buffer mean nothing.
    if (types.isUint8Array(value)) return Buffer.from(value);
    const shown = Number.isNaN(value) ? 'NaN' : kindOf(value);
    throw new FencedUsageError(
      `${name} takes strings, numbers and bytes, not ${shown}. Nothing was written.`,
      keysIn(claims),
    );
  });
}

/** The form of the keys whose names stand for the fence of another key. */
const TAKEN = /^#*\{[^{}]+\}$/;

/**
 * A key has a hash tag, or is hashed whole; so is its fence, unless a brace inside makes that impossible.
 *
 * The key x becomes {x}, so the key {x} becomes #{x}, and that one ##{x}: no two keys share a fence.
 *
 * @throws FencedUsageError
 */
function hashedLike(key: string): string {
  if (!/[{}]/.test(key)) return `{${key}}`;
  if (TAKEN.test(key)) return `#${key}`;
  const open = key.indexOf('{');
  if (open >= 0 && key.indexOf('}', open) > open + 1) return key;
  throw new FencedUsageError(
    `No fence can share the hash slot of ${JSON.stringify(key)}: its braces are no hash tag. Use a key such as 'seat:{12A}'.`,
    [key],
  );
}
