import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { foldersWith } from '../redis-servers/find-programs.ts';
import { type DatabaseServer, startFirst } from './database-server.ts';
import { unpackDebianPackages } from './debian-database.ts';
import { startDockerDatabase } from './docker-database.ts';
import { startLocalDatabase } from './local-database.ts';

/** The option of mysql2, which would give a connection up after 10 s. */
const PATIENTLY = '?connectTimeout=120000';

/**
 * A MariaDB (or MySQL) server with a database `app`: MYSQL_URL, else mariadbd of this machine, else a container, else the
 * Debian package. Ends with this process.
 * @param options of mariadbd, the last of which count; a server at MYSQL_URL keeps its own
 */
export function startMariadb(options: readonly string[] = []): Promise<DatabaseServer> {
  return startFirst('MariaDB', {
    given: { variable: 'MYSQL_URL', form: 'mysql://user:password@host/database' },
    install: 'mariadb-server',
    installed: () => installed(options),
    container: () => container(options),
    unpacked: () => unpacked(options),
  });
}

async function installed(options: readonly string[]): Promise<DatabaseServer | string> {
  const [folder] = await foldersWith(['mariadbd'], ['/usr/sbin', '/usr/local/sbin']);
  if (folder === undefined) return 'no mariadbd on PATH or in /usr/sbin';
  return start(join(folder, 'mariadbd'), [], options, `MariaDB of ${folder}`);
}

function container(options: readonly string[]): Promise<DatabaseServer | string> {
  return startDockerDatabase({
    image: 'mariadb:11',
    port: 3306,
    environment: { MARIADB_ROOT_PASSWORD: 'mariadb', MARIADB_DATABASE: 'app' },
    command: options,
    ready: [/ready for connections/, 2],
    url: (host, port) => `mysql://root:mariadb@${host}:${port}/app${PATIENTLY}`,
  });
}

async function unpacked(options: readonly string[]): Promise<DatabaseServer | string> {
  const { folder, libraryPath } = await unpackDebianPackages(
    'mariadb',
    ['mariadb-server-core', 'mariadb-server'],
    'usr/sbin/mariadbd',
  );
  const messages = [`--lc-messages-dir=${join(folder, 'usr/share/mysql')}`];
  const program = join(folder, 'usr/sbin/mariadbd');
  return start(program, messages, options, 'MariaDB of the Debian package', libraryPath);
}

function start(
  program: string,
  messages: readonly string[],
  options: readonly string[],
  description: string,
  libraryPath?: string,
): Promise<DatabaseServer> {
  const user = process.getuid?.() === 0 ? ['--user=root'] : [];
  const base = (directory: string): string[] => [
    program,
    '--no-defaults',
    `--datadir=${join(directory, 'data')}`,
    ...user,
    ...messages,
  ];
  return startLocalDatabase({
    name: 'mariadb',
    description,
    libraryPath,
    readyLine: /ready for connections/,
    asRoot: true,
    crashSignal: 'SIGKILL',
    stopSignal: 'SIGTERM',
    async initialize(directory, run) {
      const script = join(directory, 'make.sql');
      await writeFile(script, 'CREATE DATABASE mysql;\nCREATE DATABASE app;\n', { mode: 0o644 });
      await run(['mkdir', join(directory, 'data')]);
      await run([...base(directory), '--bootstrap'], script);
    },
    command: (directory, port) => [
      ...base(directory),
      // A throw-away server on loopback: no accounts, so no tables for them.
      '--skip-grant-tables',
      '--bind-address=127.0.0.1',
      `--port=${port}`,
      `--socket=${join(directory, 'mariadb.sock')}`,
      `--tmpdir=${directory}`,
      '--innodb-flush-log-at-trx-commit=0',
      '--max-connections=200',
      ...options,
    ],
    url: (port) => `mysql://root@127.0.0.1:${port}/app${PATIENTLY}`,
  });
}
