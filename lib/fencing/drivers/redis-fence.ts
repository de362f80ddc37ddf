import { FencedUsageError, RedlockConfigError, StaleTokenError } from '../../core/errors.ts';
import type {
  FenceEventListener,
  FenceKeys,
  FenceOptions,
  FenceToken,
  StaleContext,
} from '../fence.ts';
import { fenceClaims, type FenceClaim } from '../fence-claim.ts';
import { FenceReporter } from '../fence-reporter.ts';

/**
 * Checks the token on every fence and, when it is the newest everywhere, remembers it and runs the commands: all in one step.
 *
 * KEYS: first the fences (hashes with the fields t = token, decimal, and h = holder), then one key per command.
 * ARGV: number of fences · token · holder · then for each command: its name · number of its arguments after the key · these.
 * Returns: {'OK', reply …} · {'STALE', index of the fence, its token, its holder}
 *
 * Tokens are compared as decimal text, by length and then by digits: Lua numbers can't tell 2^53 from 2^53 + 1.
 */
const FENCED_WRITE_SCRIPT = `
local fences, token, holder = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

for i = 1, fences do
  local seen = redis.call('HMGET', KEYS[i], 't', 'h')
  if seen[1] and (newer(seen[1], token) or (seen[1] == token and seen[2] ~= holder)) then
    return {'STALE', i, seen[1], seen[2]}
  end
end
for i = 1, fences do redis.call('HSET', KEYS[i], 't', token, 'h', holder) end

local replies = {'OK'}
local position = 4
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
 */
export function redisFence(client: RedisFenceClient, options: RedisFenceOptions = {}): RedisFence {
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
  const run = async (
    token: FenceToken | undefined,
    commands: readonly RedisWriteCommand[],
    { keys }: FenceKeys,
    operation: StaleContext['operation'],
  ): Promise<readonly unknown[]> => {
    const claims = fenceClaims(token, keys);
    return reporter.reporting(token, claims, operation, () =>
      evaluate(client, claims, fenceName, commands),
    );
  };
  return {
    write: (token, commands, keys = {}) => run(token, commands, keys, 'write'),
    claim: async (token, keys = {}) => void (await run(token, [], keys, 'claim')),
    fenceName,
    observe: (listener) => reporter.observe(listener),
  };
}

/** A key has a hash tag, or is hashed whole; so is its fence, unless a brace inside makes that impossible. */
function hashedLike(key: string): string {
  const tag = /\{([^}]+)\}/.exec(key);
  if (tag && key.indexOf('{') === tag.index) return key;
  if (!/[{}]/.test(key)) return `{${key}}`;
  throw new FencedUsageError(
    `No fence can share the hash slot of ${JSON.stringify(key)}: its braces are no hash tag. Use a key such as 'seat:{12A}'.`,
    [key],
  );
}

async function evaluate(
  client: RedisFenceClient,
  claims: readonly FenceClaim[],
  fenceName: (key: string) => string,
  commands: readonly RedisWriteCommand[],
): Promise<readonly unknown[]> {
  const [first] = claims as readonly [FenceClaim];
  const names = [...claims.map(({ key }) => fenceName(key)), ...commands.map(([, key]) => key)];
  const [outcome, ...rest] = (await client.eval(
    FENCED_WRITE_SCRIPT,
    names.length,
    ...names,
    claims.length,
    first.token,
    first.holder,
    ...commands.flatMap(([name, _key, ...others]) => [name, others.length, ...others]),
  )) as unknown[];
  if (outcome !== 'STALE') return rest;
  const [index, currentToken, currentHolder] = rest as [number, string, string];
  const { key } = claims[index - 1] ?? first;
  throw new StaleTokenError(key, first.token, currentToken, currentHolder);
}
