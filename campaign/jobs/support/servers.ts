import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { unpackDebianPackages } from '../../../test/support/databases/debian-database.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { foldersWith } from '../../../test/support/redis-servers/find-programs.ts';
import { freePort } from '../../../test/support/redis-servers/free-port.ts';
import { GuardedProcess } from '../../../test/support/redis-servers/guarded-process.ts';
import { serverDirectory } from '../../../test/support/redis-servers/server-directory.ts';

/** A server of a queue. It ends with this process. */
export interface QueueServer {
  readonly url: string;
  stop(): Promise<unknown>;
}

async function start(
  name: string,
  command: (directory: string) => Promise<readonly string[]> | readonly string[],
  readyLine: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<() => Promise<unknown>> {
  const directory = await serverDirectory(name);
  const log = join(directory, 'server.log');
  const env = { ...process.env, HOME: directory, ...environment };
  const server = await GuardedProcess.start(await command(directory), directory, log, env);
  await eventually(async () => {
    const text = await readFile(log, 'utf8');
    if (!text.includes(readyLine)) throw new Error(`${name} is not ready: ${text.slice(-2_000)}`);
  });
  return () => {
    server.signal('SIGKILL');
    return server.exited(10_000);
  };
}

/** nats-server with JetStream, of this machine or of the Debian package. */
export async function startNats(): Promise<QueueServer> {
  const [installed] = await foldersWith(['nats-server'], ['/usr/sbin']);
  const executable = 'usr/sbin/nats-server';
  const command = installed
    ? join(installed, 'nats-server')
    : join((await unpackDebianPackages('nats', ['nats-server'], executable)).folder, executable);
  const port = await freePort();
  const options = ['-a', '127.0.0.1', '-p', String(port), '-js', '-sd'];
  const stop = await start(
    'nats',
    (directory) => [command, ...options, directory],
    'Server is ready',
  );
  return { url: `127.0.0.1:${port}`, stop };
}

const ERLANG =
  'base asn1 crypto eldap inets mnesia os-mon parsetools public-key runtime-tools ssl syntax-tools tools xmerl';

/** RabbitMQ of the Debian packages, which are not made to stand elsewhere: their `erl` and their settings are replaced. */
export async function startRabbitmq(): Promise<QueueServer> {
  const packages = [...ERLANG.split(' ').map((name) => `erlang-${name}`), 'rabbitmq-server'];
  const { folder } = await unpackDebianPackages('rabbitmq', packages, 'usr/lib/erlang/bin/epmd');
  const root = join(folder, 'usr/lib/erlang');
  const below = async (parent: string, prefix: string): Promise<string> =>
    join(
      parent,
      (await readdir(parent)).find((name) => name.startsWith(prefix))!,
    );
  const bin = join(await below(root, 'erts-'), 'bin');
  const home = await below(join(folder, 'usr/lib/rabbitmq/lib'), 'rabbitmq_server-');
  const [port, nodePort, namesPort] = [await freePort(), await freePort(), await freePort()];
  const names = { ERL_EPMD_PORT: String(namesPort) };
  const stopNames = await start('epmd', () => [join(bin, 'epmd'), '-debug'], '', names);
  const settings = {
    ...names,
    RABBITMQ_HOME: home,
    RABBITMQ_NODENAME: 'rabbit@localhost',
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(nodePort),
    RABBITMQ_CONF_ENV_FILE: '/dev/null',
    RABBITMQ_PLUGINS_DIR: join(home, 'plugins'),
    // The shell becomes the server, which then ends with the guard.
    RABBITMQ_ALLOW_INPUT: '1',
    // No dump of a crash is written into the folder in which the campaign runs.
    ERL_CRASH_DUMP_SECONDS: '0',
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-noinput',
  };
  const stop = await start(
    'rabbitmq',
    async (directory) => {
      const erl = `#!/bin/sh\nexport ROOTDIR='${root}' BINDIR='${bin}' EMU=beam PROGNAME=erl\nexec '${bin}/erlexec' "$@"\n`;
      await writeFile(join(directory, 'erl'), erl);
      await chmod(join(directory, 'erl'), 0o755);
      const places = Object.entries({
        MNESIA_BASE: 'data',
        LOG_BASE: 'log',
        CONFIG_FILE: 'none',
        ENABLED_PLUGINS_FILE: 'plugins',
        PID_FILE: 'pid',
      });
      const own = places.map(([name, file]) => `RABBITMQ_${name}=${join(directory, file)}`);
      return [
        'env',
        `PATH=${directory}:${process.env.PATH}`,
        ...own,
        'sh',
        join(home, 'sbin/rabbitmq-server'),
      ];
    },
    'Starting broker... completed',
    settings,
  );
  return {
    url: `amqp://127.0.0.1:${port}`,
    stop: () => Promise.all([stop(), stopNames()]),
  };
}
