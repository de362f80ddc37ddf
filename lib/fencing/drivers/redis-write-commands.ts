import { types } from 'node:util';
import { FencedUsageError } from '../../core/errors.ts';
import { kindOf } from '../../core/options/option-names.ts';
import type { FenceClaim } from '../fence-claim.ts';

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
