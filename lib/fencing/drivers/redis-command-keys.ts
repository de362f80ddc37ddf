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
