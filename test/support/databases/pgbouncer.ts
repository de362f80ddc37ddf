import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { foldersWith } from '../redis-servers/find-programs.ts';
import { libraryPathOf } from '../redis-servers/shared-libraries.ts';
import type { DatabaseServer } from './database-server.ts';
import { unpackDebianPackages } from './debian-database.ts';
import { startLocalDatabase } from './local-database.ts';

const EXECUTABLE = 'usr/sbin/pgbouncer';

/** PgBouncer in transaction mode: a client has a connection to the database for the time of one transaction. */
export interface PgBouncer extends DatabaseServer {
  /** Ends without warning, with all connections, and is there again on the same port. */
  crash(): Promise<void>;
  /** The number of connections to the database that a client has at this moment. */
  busyConnections(): Promise<number>;
}

/**
 * PgBouncer of this machine, or of the Debian package, in front of a database. It ends with this process.
 * @param databaseUrl the database, and the user for all clients
 * @param size the number of connections to the database, at most
 */
export async function startPgBouncer(databaseUrl: string, size: number): Promise<PgBouncer> {
  const { hostname, port: databasePort, username, password, pathname } = new URL(databaseUrl);
  const name = pathname.slice(1);
  const secret = password === '' ? '' : ` password=${decodeURIComponent(password)}`;
  const database = `host=${hostname} port=${databasePort} user=${username}${secret}`;
  const settings = (port: number): string => `
[databases]
${name} = ${database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${size}
max_client_conn = 1000
server_login_retry = 0.1
`;
  const installed = await foldersWith(['pgbouncer'], ['/usr/sbin']);
  let program = installed.map((folder) => join(folder, 'pgbouncer'))[0];
  let libraryPath = '';
  const server = await startLocalDatabase({
    name: 'pgbouncer',
    description: 'PgBouncer',
    readyLine: /process up/,
    // It refuses to run as root.
    asRoot: false,
    crashSignal: 'SIGKILL',
    stopSignal: 'SIGKILL',
    async initialize(directory) {
      if (program !== undefined) return;
      // The user it runs as may not see the cache folder of this one.
      const { folder } = await unpackDebianPackages('pgbouncer', ['pgbouncer'], EXECUTABLE);
      await cp(folder, directory, { recursive: true, verbatimSymlinks: true });
      program = join(directory, EXECUTABLE);
      libraryPath = await libraryPathOf(directory);
    },
    command: (_directory, port) => [
      '/bin/sh',
      '-c',
      'printf %s "$1" >settings.ini; LD_LIBRARY_PATH=$2 exec "$3" settings.ini',
      'sh',
      settings(port),
      libraryPath,
      program!,
    ],
    url: (port) => `postgres://${username}@127.0.0.1:${port}/${name}`,
  });
  const console = new URL(server.url);
  console.pathname = '/pgbouncer';
  return {
    ...server,
    crash: () => server.crash!(),
    busyConnections: () => countBusy(console.href, name),
  };
}

async function countBusy(consoleUrl: string, name: string): Promise<number> {
  const client = new pg.Client({ connectionString: consoleUrl });
  await client.connect();
  try {
    const { rows } = await client.query('SHOW POOLS');
    return Number(rows.find(({ database }) => database === name)?.sv_active ?? 0);
  } finally {
    await client.end();
  }
}
