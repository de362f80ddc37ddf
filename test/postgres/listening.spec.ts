import { expect, it, jest } from '@jest/globals';
import pg from 'pg';
import type { Environment } from '../../lib/core/environment.ts';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { IDENTITY_LIFE_MS } from '../../lib/core/process-identity.ts';
import { systemEnvironment } from '../../lib/core/system-environment.ts';
import { lockDatabase } from '../../lib/postgres/lock-database.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { PostgresLockNode } from '../../lib/postgres/postgres-lock-node.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { Link } from '../support/link.ts';
import { ballotNow, NodeDriver, TTL_MS } from '../support/node-driver.ts';
import { useClosing } from '../support/use-redlocks.ts';

const database = usePostgres((pool) => pool.query(postgresNode(pool).ddl()));
const closing = useClosing();

/** How often the node has said that it is there. */
let beats = 0;

/** Its timers run a hundred times as fast, so that a minute need not be waited for. */
const fast: Environment = {
  ...systemEnvironment,
  timers: {
    ...systemEnvironment.timers,
    set: (callback: () => void, delayMs: number, isBackground?: boolean) => {
      if (delayMs === IDENTITY_LIFE_MS / 3) beats += 1;
      return systemEnvironment.timers.set(callback, delayMs / 100, isBackground);
    },
  },
};

/** A node with an environment of its own, which is to listen through a stretch of network. */
async function joined(environment: Environment) {
  const url = new URL(database.url);
  const link = closing(await Link.open({ host: url.hostname, port: Number(url.port) }));
  url.port = String(link.port);
  const listen = () => new pg.Client({ connectionString: url.href });
  const settings = { name: 'postgresql', listen };
  const node = new PostgresLockNode(lockDatabase(database.pool), settings, environment);
  const driver = await NodeDriver.open(closing(node), { silenceLimitMs: 600_000 });
  await driver.join();
  return { driver, link };
}

async function listening(environment: Environment) {
  const { driver, link } = await joined(environment);
  await driver.listen('turns:bob.....');
  return { driver, link };
}

it('a connection that the network forgot is replaced by one that hears, although nobody was told of its end', async () => {
  const { driver, link } = await listening(fast);
  link.forget();
  await driver.untilListening(2);
  expect(link.accepted).toBe(2);
});

it('a connection that the network forgot before it heard anything is replaced as well', async () => {
  const { driver, link } = await joined(fast);
  link.setMode({ kind: 'hold', direction: 'replies' });
  driver.node.listen('turns:bob.....');
  await eventually(() => expect(link.connections).toHaveLength(1));
  link.forget();
  link.setMode({ kind: 'pass' });
  await driver.untilListening(1);
});

it('a connection that still hears is kept', async () => {
  const { driver, link } = await listening(fast);
  const before = beats;
  await eventually(() => expect(beats).toBeGreaterThan(before + 4));
  expect([driver.listens, link.accepted]).toEqual([1, 1]);
});

it('a process that hears nothing is told to ask soon, however long the lock is held', async () => {
  const driver = await NodeDriver.open(closing(postgresNode(database.pool)));
  await driver.join();
  const names = new NodeNames('lock:', ['polled']);
  await driver.acquire(names, 'ana.....1', ballotNow());
  const waiting = await driver.wait(names, 'bob.....', 'turns:bob.....');
  expect((waiting as { freeInMs: number }).freeInMs).toBeLessThan(TTL_MS / 10);
});

it('a connection that the network forgot keeps no node from its end', async () => {
  const { driver, link } = await listening(systemEnvironment);
  link.setMode({ kind: 'hold' });
  await expect(driver.node.close()).resolves.toBeUndefined();
});

it('what is no client is said, and the process finds its turns by asking', async () => {
  const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const listen = (async () => new pg.Client()) as unknown as () => pg.Client;
  const driver = await NodeDriver.open(closing(postgresNode(database.pool, { listen })));
  await driver.join();
  driver.node.listen('turns:bob.....');
  await eventually(() =>
    expect(warned).toHaveBeenCalledWith(expect.stringContaining('must return a new client')),
  );
  warned.mockRestore();
  await expect(driver.node.close()).resolves.toBeUndefined();
});
