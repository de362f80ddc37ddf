import { beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { otherKeys } from '../../lib/fencing/drivers/redis-fence-script.ts';
import { redisFence, type RedisFence } from '../../lib/fencing/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

/** What a client with a keyPrefix can't write under a fence; each is tried on keys that fit. */
const REFUSED = [
  ['MSET', 'a', '1', 'b', '2'],
  ['mset', 'a', '1', 'b', '2'],
  ['MSETNX', 'new', '1', 'newer', '2'],
  ['DEL', 'text', 'set'],
  ['UNLINK', 'text', 'set'],
  ['TOUCH', 'text', 'set'],
  ['RENAME', 'text', 'other'],
  ['RENAMENX', 'text', 'other'],
  ['COPY', 'text', 'other'],
  ['SMOVE', 'set', 'other', 'a'],
  ['LMOVE', 'list', 'other', 'LEFT', 'LEFT'],
  ['RPOPLPUSH', 'list', 'other'],
  ['SUNIONSTORE', 'other', 'set'],
  ['SINTERSTORE', 'other', 'set'],
  ['SDIFFSTORE', 'other', 'set'],
  ['ZUNIONSTORE', 'other', 1, 'sorted'],
  ['ZRANGESTORE', 'other', 'sorted', 0, -1],
  ['PFMERGE', 'other', 'hyper'],
  ['SORT', 'set', 'ALPHA', 'STORE', 'other'],
  ['BITOP', 'NOT', 'other', 'text'],
  ['LMPOP', 1, 'list', 'LEFT'],
  ['XGROUP', 'CREATE', 'stream', 'group', '$', 'MKSTREAM'],
  ['EVAL', 'return 1', 1, 'text'],
  ['PUBLISH', 'channel', 'hello'],
] as const;

/** With one key, which may be of a command that can have several. */
const ALLOWED = [
  ['SET', 'text', 'x'],
  ['MSET', 'text', 'y'],
  ['DEL', 'text'],
  ['SADD', 'set', 'c'],
  ['SORT', 'set', 'ALPHA', 'DESC'],
  ['HSET', 'hash', 'a', '1', 'b', '2'],
  ['XADD', 'stream', '*', 'a', '1'],
] as const;

describe('redisFence with a client that has a keyPrefix', () => {
  let plain: Redis;
  let prefixed: Redis;
  let fence: RedisFence;
  useRedisServers(1, { own: true }, ([server]) => {
    plain = new Redis(server!.url);
    prefixed = new Redis(server!.url, { keyPrefix: 'app:' });
    return () => [plain, prefixed].forEach((client) => client.disconnect());
  });
  beforeEach(async () => {
    await plain.flushall();
    fence = redisFence(prefixed);
    await prefixed.set('text', 'x');
    await prefixed.rpush('list', 'a', 'b');
    await prefixed.sadd('set', 'a', 'b');
    await prefixed.zadd('sorted', 1, 'a');
    await prefixed.pfadd('hyper', 'a');
  });

  const token = { value: 1_000_000, keys: ['k'], holder: 'h' };
  const keys = async () => (await plain.keys('*')).toSorted();

  it.each(REFUSED)('refuses %s %s …, of which it would prefix one key only', async (...command) => {
    const before = await keys();
    const refused = fence.write(token, [['SET', 'text', 'first'], command as never]);
    await expect(refused).rejects.toMatchObject({ code: 'FENCED_USAGE', keys: ['k'] });
    await expect(refused).rejects.toThrow(
      new RegExp(
        `^${command[0]} \\(command 2\\) .*keyPrefix before .*"app:".*without a keyPrefix.*written\\.$`,
      ),
    );
    expect(await keys()).toEqual(before);
    await expect(prefixed.get('text')).resolves.toBe('x');
  });

  it('writes one key of each command to where the client has it', async () => {
    await expect(fence.write(token, ALLOWED)).resolves.toHaveLength(ALLOWED.length);
    for (const key of await keys()) expect(key).toMatch(/^app:/);
  });

  it.each(['', undefined])(
    'takes several keys where the prefix of the client is %j',
    async (keyPrefix) => {
      const client = new Redis({
        ...plain.options,
        ...(keyPrefix === undefined ? {} : { keyPrefix }),
      });
      try {
        await redisFence(client).write(token, [['MSET', 'a', '1', 'b', '2']]);
        await expect(plain.mget('a', 'b')).resolves.toEqual(['1', '2']);
      } finally {
        client.disconnect();
      }
    },
  );

  it('knows every command of the server that has more than its first argument for a key', async () => {
    const commands = (await plain.call('COMMAND')) as readonly CommandInfo[];
    const known = (name: string): boolean => otherKeys(name, Array(9).fill('GET')) !== undefined;
    const missing = commands.filter((info) => isWithOthers(info) && !known(info[0]));
    expect(missing.map(([name]) => name)).toEqual([]);
  });
});

/** As `COMMAND` returns it; behind the rest come its subcommands. */
type CommandInfo = readonly [
  name: string,
  arity: number,
  flags: readonly string[],
  firstKey: number,
  lastKey: number,
  step: number,
  ...rest: unknown[],
];

/** Channels are no keys to the server, but the client would put its prefix before them. */
function isWithOthers([name, , flags, first, last, ...rest]: CommandInfo): boolean {
  const isElsewhere = first > 1 || (first === 1 && last !== 1) || flags.includes('movablekeys');
  const subcommands = (rest[4] ?? []) as readonly CommandInfo[];
  return isElsewhere || name === 'publish' || subcommands.some(isWithOthers);
}
