import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { postgresNode } from '../../lib/postgres/index.ts';
import { Link } from '../support/link.ts';
import { useClosing, useRedlocks } from '../support/use-redlocks.ts';
import { useOwnServer } from './own-server.ts';

const server = useOwnServer();
const { newPool } = server;
const open = useRedlocks();
const closing = useClosing();

it('connections that the network forgot cost no call of a process that did not run for a while', async () => {
  const { hostname: host, port } = new URL(server.url);
  const link = closing(await Link.open({ host, port: Number(port) }));
  const url = server.urlWith((to) => Object.assign(to, { port: link.port }));
  const pool = newPool({ connectionString: url, max: 2, idleTimeoutMillis: 0 });
  const redlock = await open([postgresNode(pool)], { ttl: '1m', nodeTimeout: '20s' });
  // The pool has two connections, of which neither is in use.
  const clients = await Promise.all([pool.connect(), pool.connect()]);
  for (const client of clients) client.release();
  expect(link.accepted).toBe(2);
  link.forget();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000);
  // Timers run before what has arrived is read: so do those of a process that runs again.
  await sleep(0);
  const lock = await redlock.acquire('thawed', { wait: 0 });
  await lock.release();
  expect(link.accepted).toBeGreaterThan(2);
});
