import { randomBytes } from 'node:crypto';
import {
  FencedUsageError,
  quoteKeys,
  RedlockConfigError,
  StaleTokenError,
} from '../../core/errors.ts';
import { checkFenceArguments, keysOf, maxAgeOf } from '../fence-arguments.ts';
import type { FenceEventListener, FenceKeys, FenceOptions, FenceToken } from '../fence.ts';
import { checkFenceKey, fenceClaims, type FenceClaim } from '../fence-claim.ts';
import { FenceReporter } from '../fence-reporter.ts';
import {
  hashedLike,
  FENCED_WRITE_SCRIPT,
  checkedCommands,
  type CheckedCommand,
  type RedisWriteCommand,
} from './redis-fence-script.ts';

/** What the fence needs of a client of ioredis, also a cluster one. */
export interface RedisFenceClient {
  /** Takes lists among its arguments for what is in them, as ioredis does: a function can't have very many. */
  eval(script: string, keyCount: number, ...rest: any[]): Promise<unknown>;
  /** What ioredis was given. */
  readonly options?: {
    /** In front of the keys of scripts, but not of other arguments. */
    readonly keyPrefix?: string | Buffer | undefined;
  };
}

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
   * A client with a `keyPrefix` puts it before the first argument of each command only. With such a client, a command with several
   * keys (`MSET`, `RENAME`, `DEL` of two), or with something else before its key (`BITOP`, `PUBLISH`), is refused before anything is
   * sent: write one command for each key, or use a client without `keyPrefix` and whole names.
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
  const known = ['onStale', 'onEvent', 'maxAge', 'keyPrefix'];
  checkFenceArguments('redisFence', client, ['eval'], 'a client of ioredis', options, known);
  const prefix = options.keyPrefix ?? 'fence:';
  if (typeof prefix !== 'string' || /[{}]/.test(prefix)) {
    throw new RedlockConfigError(
      'keyPrefix',
      prefix,
      'give a string without braces, which would change the hash slot',
    );
  }
  const maxAgeMs = maxAgeOf(options);
  const fence = { client, prefix, maxAgeMs };
  const reporter = new FenceReporter(options);
  return {
    write: async (token, commands, called) => {
      const claims = fenceClaims(token, keysOf('fence.write', called), maxAgeMs);
      const clientPrefix = String(client.options?.keyPrefix ?? '');
      const checked = checkedCommands(commands, claims, clientPrefix);
      const run = () => write(fence, claims, checked);
      return reporter.reporting(token, claims, 'write', run);
    },
    claim: async (token, called) => {
      const claims = fenceClaims(token, keysOf('fence.claim', called), maxAgeMs);
      const run = () => evaluate(fence, claims, [], ['', 0, 0]);
      await reporter.reporting(token, claims, 'claim', run);
    },
    fenceName: (key) => {
      checkFenceKey(key);
      return prefix + hashedLike(key);
    },
    observe: (listener) => reporter.observe(listener),
  };
}

/** What a script needs of the fence. */
interface FenceNames {
  readonly client: RedisFenceClient;
  readonly prefix: string;
  readonly maxAgeMs: number | undefined;
}

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
  fence: FenceNames,
  claims: readonly FenceClaim[],
  commands: readonly CheckedCommand[],
): Promise<readonly unknown[]> {
  const writer = writerOf(fence.client);
  const { underWay, waiting } = writer;
  const number = (writer.next += 1);
  underWay.add(number);
  try {
    // A set keeps the order in which its members came.
    const send = () => {
      const [oldest = number] = underWay;
      return evaluate(fence, claims, commands, [writer.field, number, oldest]);
    };
    if (underWay.size <= MOST_UNDER_WAY) return await send();
    return await new Promise((resolve) => waiting.push(() => resolve(send())));
  } finally {
    underWay.delete(number);
    waiting.shift()?.();
  }
}

async function evaluate(
  { client, prefix, maxAgeMs }: FenceNames,
  claims: readonly FenceClaim[],
  commands: readonly CheckedCommand[],
  identity: readonly [writer: string, number: number, oldest: number],
): Promise<readonly unknown[]> {
  const [first] = claims as readonly [FenceClaim];
  const age = stopwatch();
  const names: (string | number | Buffer)[] = claims.map(({ key }) => prefix + hashedLike(key));
  for (const [, key] of commands) names.push(key);
  const reply = await client.eval(
    FENCED_WRITE_SCRIPT,
    names.length,
    names,
    [claims.length, first.token, first.holder, ...identity, maxAgeMs ?? ''],
    commands.flatMap(([name, _key, ...others]) => [name, others.length, ...others]),
  );
  if (!Array.isArray(reply))
    throw new FencedUsageError(
      'The client of the fence is inside MULTI, or is a pipeline: its script runs at EXEC, if at all, and no answer says whether it refused the token. Give redisFence a client that sends each command at once.',
      claims.map((each) => each.key),
    );
  const [outcome, ...rest] = reply as unknown[];
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
