import { join } from 'node:path';
import { unpackDebianPackages } from '../../test/support/databases/debian-database.ts';
import { startLocalDatabase } from '../../test/support/databases/local-database.ts';
import { startPostgres } from '../../test/support/databases/postgres-server.ts';
import { foldersWith } from '../../test/support/redis-servers/find-programs.ts';
import { freePort } from '../../test/support/redis-servers/free-port.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import type { Library } from './library.ts';

/** The servers of a library, which all of its processes reach over links of their own. */
export interface Servers {
  readonly urls: readonly string[];
  /** Starts them again: a majority of Redis servers empty, one after another; others with what they had written. */
  forget(): Promise<void>;
  stop(): Promise<unknown>;
}

type Start = (count: number) => Promise<Servers>;

export const SERVERS: Readonly<Record<Library['servers'], Start>> = {
  async redis(count) {
    const servers = await startRedisServers(count, { own: true });
    const majority = servers.slice(0, Math.floor(count / 2) + 1);
    return {
      urls: servers.map(({ url }) => url),
      async forget() {
        for (const server of majority) await server.restart();
      },
      stop: () => Promise.all(servers.map((server) => server.stop())),
    };
  },
  async postgres() {
    const server = await startPostgres();
    return { urls: [server.url], forget: () => server.crash!(), stop: () => server.stop() };
  },
  async etcd() {
    const server = await startEtcd();
    return { urls: [server.url], forget: () => server.crash!(), stop: () => server.stop() };
  },
};

/** etcd, of this machine or of the Debian package. A lease may be as short as one and a half of its election timeouts. */
async function startEtcd() {
  const executable = 'usr/bin/etcd';
  const [installed] = await foldersWith(['etcd']);
  const command = installed
    ? join(installed, 'etcd')
    : join((await unpackDebianPackages('etcd', ['etcd-server'], executable)).folder, executable);
  const peers = `http://127.0.0.1:${await freePort()}`;
  return startLocalDatabase({
    name: 'etcd',
    description: 'etcd',
    readyLine: /ready to serve client requests/,
    asRoot: true,
    crashSignal: 'SIGKILL',
    stopSignal: 'SIGKILL',
    initialize: async () => undefined,
    command: (directory, port) => [
      command,
      `--data-dir=${directory}/data`,
      `--listen-client-urls=http://127.0.0.1:${port}`,
      `--advertise-client-urls=http://127.0.0.1:${port}`,
      `--listen-peer-urls=${peers}`,
      `--initial-advertise-peer-urls=${peers}`,
      `--initial-cluster=default=${peers}`,
      '--heartbeat-interval=50',
      '--election-timeout=500',
      '--unsafe-no-fsync',
    ],
    url: (port) => `http://127.0.0.1:${port}`,
  });
}
