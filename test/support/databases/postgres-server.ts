import { chmod, cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type DatabaseServer, startFirst } from './database-server.ts';
import { unpackDebianPackages } from './debian-database.ts';
import { startDockerDatabase } from './docker-database.ts';
import { foldersWith } from '../redis-servers/find-programs.ts';
import { libraryPathOf } from '../redis-servers/shared-libraries.ts';
import { startLocalDatabase } from './local-database.ts';

const SETTINGS = {
  wal_level: 'logical',
  max_connections: '200',
  max_replication_slots: '10',
  max_wal_senders: '10',
  // The order and the visibility are tested, not power cuts.
  fsync: 'off',
  shared_buffers: '64MB',
  autovacuum: 'off',
};
/** The settings of `postgresql.conf`. */
type Settings = Readonly<Record<string, string>>;

const optionsOf = (settings: Settings): string[] =>
  Object.entries({ ...SETTINGS, ...settings }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);

/**
 * A PostgreSQL server: DATABASE_URL, else the programs of this machine, else a container, else the Debian package.
 * Ends with this process. Logical decoding is on where it is started here.
 * @param settings besides the default ones, or instead of them; a server at DATABASE_URL keeps its own
 */
export function startPostgres(settings: Settings = {}): Promise<DatabaseServer> {
  return startFirst('PostgreSQL', {
    given: {
      variable: 'DATABASE_URL',
      form: 'postgres://user:password@host/database',
    },
    install: 'PostgreSQL (initdb and postgres, on PATH or in /usr/lib/postgresql)',
    installed: () => installed(settings),
    container: () => container(settings),
    unpacked: () => unpacked(settings),
  });
}

/** A new empty database on the server, by its URL. */
export async function createPostgresDatabase(
  server: DatabaseServer,
  name: string,
): Promise<string> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${name}`);
  } finally {
    await client.end();
  }
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  return url.href;
}

async function installed(settings: Settings): Promise<DatabaseServer | string> {
  const packaged = await readdir('/usr/lib/postgresql').catch(() => [] as string[]);
  const newestFirst = packaged.sort((left, right) => Number(right) - Number(left));
  const [folder] = await foldersWith(
    ['initdb', 'postgres'],
    newestFirst.map((version) => `/usr/lib/postgresql/${version}/bin`),
  );
  if (folder === undefined) return 'no initdb with postgres on PATH or in /usr/lib/postgresql';
  return startIn(folder, settings, `PostgreSQL of ${folder}`);
}

function container(settings: Settings): Promise<DatabaseServer | string> {
  return startDockerDatabase({
    image: 'postgres:17',
    port: 5432,
    environment: { POSTGRES_PASSWORD: 'postgres' },
    command: ['postgres', ...optionsOf(settings)],
    ready: [/database system is ready to accept connections/, 2],
    url: (host, port) => `postgres://postgres:postgres@${host}:${port}/postgres`,
  });
}

async function unpacked(settings: Settings): Promise<DatabaseServer | string> {
  const { folder } = await unpackDebianPackages(
    'postgresql',
    ['postgresql-15', 'postgresql-client-15'],
    'usr/lib/postgresql/15/bin/postgres',
  );
  // A copy for this server: the user it runs as may not see the cache folder of this one.
  const copy = await mkdtemp(join(tmpdir(), 'fenced-lock-postgresql-'));
  try {
    await cp(folder, copy, { recursive: true, verbatimSymlinks: true });
    await chmod(copy, 0o755);
    const programs = join(copy, 'usr/lib/postgresql/15/bin');
    const libraryPath = await libraryPathOf(copy);
    const description = 'PostgreSQL of the Debian package';
    const server = await startIn(programs, settings, description, libraryPath);
    const stop = async (): Promise<void> => {
      await server.stop();
      await rm(copy, { recursive: true, force: true });
    };
    return { ...server, stop };
  } catch (error) {
    await rm(copy, { recursive: true, force: true });
    throw error;
  }
}

async function startIn(
  programs: string,
  settings: Settings,
  description: string,
  libraryPath?: string,
  makeData = initdb(programs),
): Promise<DatabaseServer> {
  let data = '';
  const server = await startLocalDatabase({
    name: 'postgres',
    description,
    libraryPath,
    readyLine: /database system is ready to accept (?:read-only )?connections/,
    asRoot: false,
    patientSignal: 'SIGTERM',
    // The server's processes end at once, as in a crash; killed, it would leave them behind.
    crashSignal: 'SIGQUIT',
    stopSignal: 'SIGINT',
    initialize: (directory, run) => {
      data = `${directory}/data`;
      return makeData(data, run);
    },
    command: (directory, port) => [
      join(programs, 'postgres'),
      '-D',
      `${directory}/data`,
      `--port=${port}`,
      `--unix-socket-directories=${directory}`,
      '--listen-addresses=127.0.0.1',
      ...optionsOf(settings),
    ],
    url: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
  });
  const standby = () => {
    const primary_conninfo = `host=127.0.0.1 port=${new URL(server.url).port} user=postgres`;
    const copied = copyOf(server.url, data);
    return startIn(programs, { ...settings, primary_conninfo }, description, libraryPath, copied);
  };
  return { ...server, standby };
}

type MakeData = (data: string, run: (command: readonly string[]) => Promise<void>) => Promise<void>;

const initdb =
  (programs: string): MakeData =>
  (data, run) => {
    const options = '--username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync';
    return run([join(programs, 'initdb'), data, ...options.split(' ')]);
  };

/** The data of a standby, as pg_basebackup makes them, which not every package has. */
const copyOf =
  (url: string, source: string): MakeData =>
  async (data, run) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      await client.query("SELECT pg_backup_start('standby', true)");
      await run(['cp', '-r', source, data]);
      const { rows } = await client.query('SELECT labelfile FROM pg_backup_stop(false)');
      const finish =
        'cd "$1" && rm postmaster.pid && touch standby.signal && printf %s "$2" >backup_label';
      await run(['/bin/sh', '-c', finish, 'sh', data, rows[0].labelfile]);
    } finally {
      await client.end();
    }
  };
