import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { RedisCluster } from '../../e2e/core/support/redis-cluster.ts';
import { eventually } from '../../support/eventually.ts';
import { NodeDriver } from '../../support/node-driver.ts';
import type { RedisServer } from '../../support/redis-servers/index.ts';
import { type EndCondition, type ErrorCondition, errorConditions } from './error-conditions.ts';
import { LockClient } from './lock-client.ts';
import { infoField, withAdmin } from './server-admin.ts';

const CONDITIONS = errorConditions({ silentMs: 5_000, loadingMs: 10_000 });
/**
 * `ttl`: no test waits until a lock ends by itself. `nodeTimeout`: a busy machine answers within it, and a silent server is
 * found out while it is silent.
 */
const SETTINGS = { ttl: 60_000, nodeTimeout: 1_500, restartGuard: false };
/** The longest pause between two attempts to connect is a second, and tries are 20 ms apart at least. */
const TRIES_AFTER_END = 150;

/** What began and was not ended, because a test failed in between. */
let unended = new Set<EndCondition>();
afterEach(async () => {
  const ends = [...unended];
  unended = new Set();
  await Promise.all(ends.map((end) => end()));
});

async function begin(condition: ErrorCondition, server: RedisServer): Promise<EndCondition> {
  const end = await condition.begin(server);
  unended.add(end);
  return () => {
    unended.delete(end);
    return end();
  };
}

/** Everything of a server that a momentary condition can change. */
function traces(server: RedisServer): Promise<unknown> {
  return withAdmin(server, async (admin) => {
    const own = String(await admin.client('ID'));
    const list = (await admin.client('LIST')) as string;
    const ids = [...list.matchAll(/^id=(\d+)/gm)].map((match) => match[1]);
    const scripts = await infoField(admin, 'number_of_cached_scripts');
    return { ids: ids.filter((id) => id !== own), scripts, keys: (await admin.keys('*')).sort() };
  });
}

/** How many tries it takes until the key is granted; it is released then. */
async function triesUntilGranted(client: LockClient, key: string): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    const { outcome, message } = await client.acquire(key);
    if (outcome === 'done') {
      await client.release(key);
      return tries;
    }
    if (outcome !== 'QUORUM_UNAVAILABLE' || tries === TRIES_AFTER_END) {
      throw new Error(`try ${tries}: ${outcome} ${message}`);
    }
    await sleep(20);
  }
}

const named = (conditions: readonly ErrorCondition[]) =>
  conditions.map((condition) => [condition.name, condition] as const);

/** Servers, and processes of which none may say anything but typed errors. */
interface Scene {
  readonly cluster: RedisCluster;
  /** The server that suffers. */
  readonly struck: RedisServer;
  readonly holder: LockClient;
  readonly other: LockClient;
}

/** A scene for the tests around: it is there when they run. */
function useScene(size: number): Scene {
  const scene = {} as { -readonly [Name in keyof Scene]: Scene[Name] };
  beforeAll(async () => {
    scene.cluster = await RedisCluster.start(size);
    const urls = scene.cluster.servers.map(({ url }) => url);
    const start = () => LockClient.start(urls, SETTINGS);
    [scene.struck] = scene.cluster.servers as [RedisServer];
    [scene.holder, scene.other] = await Promise.all([start(), start()]);
  });
  afterAll(async () => {
    const complaints = await Promise.all([scene.holder.finish(), scene.other.finish()]);
    await scene.cluster.stop();
    expect(complaints).toEqual(['', '']);
  });
  return scene;
}

describe('one server alone', () => {
  const scene = useScene(1);

  /** The lock is still its holder's and no one else's, until it is released. */
  async function expectKept(key: string, token: number): Promise<void> {
    const { holder, other } = scene;
    await eventually(async () =>
      expect(await holder.extend(key)).toMatchObject({ outcome: 'done', token }),
    );
    expect((await other.acquire(key)).outcome).toBe('LOCK_BUSY');
    expect((await holder.release(key)).outcome).toBe('done');
    const next = await other.acquire(key, 20_000);
    expect(next.token).toBeGreaterThan(token);
    await other.release(key);
  }

  it.each(named(CONDITIONS.filter(({ kind }) => kind !== 'momentary')))(
    '%s: is a typed error that tells why, loses nothing, and votes again afterwards',
    async (_, condition) => {
      const { cluster, holder, other, struck } = scene;
      const [key, heldKey] = [cluster.newKey(), cluster.newKey()];
      const { token } = await holder.acquire(heldKey, 20_000);
      const end = await begin(condition, struck);
      const tries = condition.kind === 'silent' ? 1 : 3;
      const outcomes: string[] = [];
      await eventually(async () => {
        const { outcome, message } = await other.acquire(key);
        outcomes.push(outcome);
        expect(outcomes.length).toBeGreaterThanOrEqual(tries);
        expect(message).toMatch(condition.error ?? /no answer in time/);
      });
      await end();
      expect(new Set(outcomes)).toEqual(new Set(['QUORUM_UNAVAILABLE']));
      expect(await triesUntilGranted(other, key)).toBeLessThanOrEqual(TRIES_AFTER_END);
      await expectKept(heldKey, token!);
    },
  );

  it.each(named(CONDITIONS.filter(({ kind }) => kind === 'momentary')))(
    '%s: costs a few tries',
    async (_, condition) => {
      const { cluster, holder, other, struck } = scene;
      const heldKey = cluster.newKey();
      const { token } = await holder.acquire(heldKey, 20_000);
      const before = await traces(struck);
      const end = await begin(condition, struck);
      expect(await traces(struck)).not.toEqual(before);
      expect(await triesUntilGranted(other, cluster.newKey())).toBeLessThanOrEqual(TRIES_AFTER_END);
      await end();
      await expectKept(heldKey, token!);
    },
  );

  const codes = ['OOM', 'READONLY', 'MASTERDOWN', 'NOREPLICAS', 'MISCONF', 'BUSY'];
  it.each(codes)(
    '%s is a state of the server for the start-up checks, not a missing right',
    async (code) => {
      const node = new RedisLockNode(scene.struck.url);
      const driver = await NodeDriver.open(node);
      const end = await begin(
        CONDITIONS.find(({ name }) => name.startsWith(code))!,
        scene.struck,
      );
      const reply = await driver.examine();
      await node.close();
      await end();
      expect(reply).toMatchObject({ kind: 'facts', missingRights: [] });
    },
  );
});

describe('one of three servers', () => {
  const scene = useScene(3);

  it.each(named(CONDITIONS))(
    '%s: the others carry the locks, and nothing is left on it',
    async (_, condition) => {
      const { cluster, holder, other, struck } = scene;
      const keys = [cluster.newKey(), cluster.newKey(), cluster.newKey()] as const;
      await eventually(async () => {
        expect((await holder.acquire(keys[2], 20_000)).outcome).toBe('done');
        if ((await cluster.holders(keys[2])) === 3) return;
        await holder.release(keys[2]);
        throw new Error('not held by all three');
      });
      const end = await begin(condition, struck);
      expect((await holder.release(keys[2])).outcome).toBe('done');
      const tokens: number[] = [];
      for (const client of [holder, other, holder, other, holder]) {
        const granted = await client.acquire(keys[0]);
        expect(granted).toMatchObject({ outcome: 'done' });
        tokens.push(granted.token!);
        expect((await client.release(keys[0])).outcome).toBe('done');
      }
      expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
      await end();
      await eventually(async () => {
        expect((await other.acquire(keys[1], 20_000)).outcome).toBe('done');
        const owners = await cluster.owners(keys[1]);
        await other.release(keys[1]);
        expect(owners[0]).toBeDefined();
      });
      await eventually(async () => {
        expect(await Promise.all(keys.map((key) => cluster.holders(key)))).toEqual([0, 0, 0]);
      });
    },
  );
});
