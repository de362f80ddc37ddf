import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { foldersWith } from '../../test/support/redis-servers/find-programs.ts';
import { freePort } from '../../test/support/redis-servers/free-port.ts';
import { GuardedProcess } from '../../test/support/redis-servers/guarded-process.ts';
import type { RedisServer } from '../../test/support/redis-servers/index.ts';
import { serverDirectory } from '../../test/support/redis-servers/server-directory.ts';
import { unpackDebianPackages } from '../../test/support/databases/debian-database.ts';
import { eventually } from '../../test/support/eventually.ts';

const EXECUTABLE = 'usr/sbin/haproxy';

/** The settings as users of HAProxy find them on the web: the server that says it is the master gets the connections. */
function settings(port: number, servers: readonly RedisServer[], ofServer: string): string {
  return `
defaults
  mode tcp
  timeout connect 1s
  timeout client 1m
  timeout server 1m

listen redis
  bind 127.0.0.1:${port}
  option tcp-check
  tcp-check connect
  tcp-check send PING\\r\\n
  tcp-check expect string +PONG
  tcp-check send info\\ replication\\r\\n
  tcp-check expect string role:master
  tcp-check send QUIT\\r\\n
  tcp-check expect string +OK
  default-server inter 100ms fall 1 rise 1 ${ofServer}
${servers.map(({ host, port: at }, index) => `  server redis${index} ${host}:${at} check`).join('\n')}
`;
}

/** HAProxy in front of a master and a replica, of this machine or of the Debian package. Ends with this process. */
export async function startHaproxy(
  servers: readonly RedisServer[],
  ofServer = '',
): Promise<{ url: string; close(): Promise<unknown> }> {
  const { command, libraryPath } = await findHaproxy();
  const directory = await serverDirectory('haproxy');
  const port = await freePort();
  const file = join(directory, 'haproxy.cfg');
  await writeFile(file, settings(port, servers, ofServer));
  const log = join(directory, 'haproxy.log');
  const environment = { ...process.env, ...(libraryPath && { LD_LIBRARY_PATH: libraryPath }) };
  const proxy = await GuardedProcess.start(
    [command, '-db', '-f', file],
    directory,
    log,
    environment,
  );
  // HAProxy takes every server for a master until it has asked.
  await eventually(async () => {
    if (!(await readFile(log, 'utf8')).includes('is DOWN')) throw new Error('no replica was seen');
  });
  return {
    url: `redis://127.0.0.1:${port}`,
    close: () => {
      proxy.signal('SIGKILL');
      return proxy.exited(10_000);
    },
  };
}

async function findHaproxy(): Promise<{ command: string; libraryPath?: string }> {
  const [installed] = await foldersWith(['haproxy'], ['/usr/sbin']);
  if (installed !== undefined) return { command: join(installed, 'haproxy') };
  const { folder, libraryPath } = await unpackDebianPackages('haproxy', ['haproxy'], EXECUTABLE);
  return { command: join(folder, EXECUTABLE), libraryPath };
}
