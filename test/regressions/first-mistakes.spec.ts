import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockService, RedlockModule } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { MODULE_OPTIONS } from '../../lib/nest/redlock-host.ts';
import { closeAll, closeLater, silentLogger, startModule } from '../nest/support/applications.ts';

afterEach(closeAll);

async function start(module: ReturnType<typeof RedlockModule.forRoot>): Promise<unknown> {
  const building = Test.createTestingModule({ imports: [module] }).setLogger(silentLogger);
  return closeLater(await (await building.compile()).init());
}

const boot = async (options: unknown) => start(RedlockModule.forRoot(options as never));
const secret = 'redis://:hunter2@one';

/** Wrong options of the module, behind the name of the one that is wrong. */
const WRONG: readonly (readonly [option: string, options: unknown])[] = [
  ['TTL', { TTL: '1s' }],
  ['password', { nodes: createMemoryNodes(1), password: 'hunter2' }],
  ['options', secret],
  ['options', [secret]],
  ['nodes', { nodes: secret }],
  ['nodes', { nodes: undefined }],
  ['nodes', { nodes: null }],
  ['nodes', { nodes: [] }],
  ['nodes[0]', { nodes: [[secret]] }],
  ['nodes[0]', { nodes: [{ url: secret }] }],
  ['nodes[0]', { nodes: [{ host: secret }] }],
  ['nodes[0]', { nodes: [`${secret}:1,redis://b:2`] }],
  ['nodes[1]', { nodes: ['redis://one', undefined] }],
  ['ttl', { ttl: null }],
  ['quorum', { quorum: 1, nodes: createMemoryNodes(2) }],
  ['retry', { retry: 5 }],
  ['retry.delay', { retry: { delay: 5 } }],
  ['strict', { strict: 'yes' }],
  ['startupTimeout', { startupTimeout: 0 }],
  ['shutdownTimeout', { shutdownTimeout: 'never' }],
  ['isInTransaction', { isInTransaction: true }],
  ['onEvent', { onEvent: 'log' }],
  ['fence', { fence: 'postgres://a:hunter2@b' }],
];

describe('options of the module', () => {
  it.each(WRONG)(
    '%s is refused by its name, without what may be a password: %j',
    async (option, options) => {
      const given =
        typeof options === 'object' && !Array.isArray(options)
          ? { nodes: createMemoryNodes(1), ...options }
          : options;
      const error: any = await boot(given).catch((refused: unknown) => refused);
      expect(error).toMatchObject({ code: 'REDLOCK_CONFIG', option });
      expect(error.message).not.toContain('hunter2');
    },
  );

  it('are refused for a client of GLIDE, which sends late', async () => {
    const client = { customCommand: async () => 'OK', close: () => undefined };
    const refused = boot({ nodes: [client] });
    await expect(refused).rejects.toThrow(/'nodes\[0\]' can't be a client of GLIDE: .* late/);
  });

  it('are refused by the valid names, from a factory as well', async () => {
    const known = /it is unknown; RedlockModule takes nodes, ttl, .*, onEvent/;
    await expect(boot({ nodes: [], TTL: 5 })).rejects.toThrow(known);
    const made = { useFactory: () => ({ nodes: createMemoryNodes(1), TTL: 5 }) };
    await expect(start(RedlockModule.forRootAsync(made))).rejects.toThrow(known);
    const none = { useFactory: () => undefined as never };
    await expect(start(RedlockModule.forRootAsync(none))).rejects.toThrow(/give an object/);
  });

  it('are all accepted that docs/options.md lists', async () => {
    const [, table = ''] = readFileSync('docs/options.md', 'utf8').split('\n## Module options');
    const rows = table
      .split('\n## ')[0]!
      .matchAll(/^(?:- \*\*|.* also take )`([a-zA-Z]+)(?:\.\w+)?`/gm);
    const names = new Set([...rows].map(([, name]) => name!));
    expect([...Object.keys(MODULE_OPTIONS), 'isGlobal'].sort()).toEqual([...names].sort());
  });
});

describe('a call', () => {
  const run = () => 'done';

  it.each<[string, (locks: any) => Promise<unknown>]>([
    ['an unknown option', (locks) => locks.acquire('a', { timeout: 5 })],
    ['an option of withLock', (locks) => locks.acquire('a', { onLost: 'ignore' })],
    [
      'frozen options that withLock has taken',
      async (locks) => {
        const options = Object.freeze({ onLost: 'ignore' });
        await locks.withLock('a', run, options);
        return locks.acquire('a', options);
      },
    ],
    ['a claim', (locks) => locks.tryAcquire('a', { claim: true })],
    ['a claim that is no boolean', (locks) => locks.withLock('a', run, { claim: 'yes' })],
    ['a slip beside a claim', (locks) => locks.withLock('a', run, { claim: false, wiat: 5 })],
    ['a number', (locks) => locks.tryAcquire('a', 5000)],
    ['an array', (locks) => locks.tryAcquire('a', [])],
    ['a controller', (locks) => locks.acquire('a', { signal: new AbortController() })],
    ['no work', (locks) => locks.withLock('a')],
  ])('with %s is refused before anything is locked', async (what, call) => {
    const locks = (await startModule({})).get(LockService);
    const code = what === 'no work' ? 'FENCED_USAGE' : 'REDLOCK_CONFIG';
    await expect(call(locks)).rejects.toMatchObject({ code });
    await using free = await locks.tryAcquire('a');
    expect(free).not.toBeNull();
  });
});
