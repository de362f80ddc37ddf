import { access, chmod, cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import pg from 'pg';
import { type DatabaseServer, startFirst } from './database-server.ts';
import { unpackDebianPackages } from './debian-database.ts';
import { startDockerDatabase } from './docker-database.ts';
import { libraryPathOf } from '../redis-servers/shared-libraries.ts';
import { startLocalDatabase } from './local-database.ts';

const SETTINGS = {
  wal_level: 'logical',
  max_connections: '200',
  max_replication_slots: '10',
  max_wal_senders: '10',
  // Order and visibility are tested, not power cuts.
  fsync: 'off',
  shared_buffers: '64MB',
  autovacuum: 'off',
};
/** Of `postgresql.conf`. */
type Settings = Readonly<Record<string, string>>;

const optionsOf = (settings: Settings): string[] =>
  Object.entries({ ...SETTINGS, ...settings }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);

/**
 * A PostgreSQL server: DATABASE_URL, else the programs of this machine, else a container, else the Debian package.
 * Ends with this process. Logical decoding is on where it is started here.
 * @param settings besides ours, or instead of them; a server at DATABASE_URL keeps its own
 */
export function startPostgres(settings: Settings = {}): Promise<DatabaseServer> {
  return startFirst('PostgreSQL', [
    {
      hint: 'name a running server: DATABASE_URL=postgres://user:password@host/database',
      start: given,
    },
    {
      hint: 'install PostgreSQL (initdb and postgres, on PATH or in /usr/lib/postgresql)',
      start: () => installed(settings),
    },
    {
      hint: 'start Docker, or another container runtime that testcontainers knows',
      start: () => container(settings),
    },
    {
      hint: 'on Debian, let apt-get reach its package source: no root is needed',
      start: () => unpacked(settings),
    },
  ]);
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

async function given(): Promise<DatabaseServer | string> {
  const url = process.env.DATABASE_URL;
  if (!url) return 'DATABASE_URL is not set';
  return { url, description: 'PostgreSQL at DATABASE_URL', stop: () => Promise.resolve() };
}

async function installed(settings: Settings): Promise<DatabaseServer | string> {
  const packaged = await readdir('/usr/lib/postgresql').catch(() => [] as string[]);
  const folders = [
    ...(process.env.PATH ?? '').split(delimiter),
    ...packaged
      .sort((left, right) => Number(right) - Number(left))
      .map((version) => `/usr/lib/postgresql/${version}/bin`),
  ];
  for (const folder of folders) {
    const isThere = await Promise.all([
      access(join(folder, 'initdb')),
      access(join(folder, 'postgres')),
    ]).then(
      () => true,
      () => false,
    );
    if (isThere) return startIn(folder, settings, `PostgreSQL of ${folder}`);
  }
  return 'no initdb with postgres on PATH or in /usr/lib/postgresql';
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
  // A copy for this server: the user it runs as may not see the cache folder of ours.
  const copy = await mkdtemp(join(tmpdir(), 'fenced-lock-postgresql-'));
  try {
    await cp(folder, copy, { recursive: true, verbatimSymlinks: true });
    await chmod(copy, 0o755);
    const programs = join(copy, 'usr/lib/postgresql/15/bin');
    const server = await startIn(
      programs,
      settings,
      'PostgreSQL of the Debian package',
      await libraryPathOf(copy),
    );
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

function startIn(
  programs: string,
  settings: Settings,
  description: string,
  libraryPath?: string,
): Promise<DatabaseServer> {
  return startLocalDatabase({
    name: 'postgres',
    description,
    libraryPath,
    readyLine: /database system is ready to accept connections/,
    asRoot: false,
    patientSignal: 'SIGTERM',
    stopSignal: 'SIGINT',
    initialize: (directory, run) =>
      run([
        join(programs, 'initdb'),
        '-D',
        join(directory, 'data'),
        '-U',
        'postgres',
        '-A',
        'trust',
        '-E',
        'UTF8',
        '--no-sync',
        '--locale=C',
      ]),
    command: (directory, port) => [
      join(programs, 'postgres'),
      '-D',
      join(directory, 'data'),
      '-p',
      String(port),
      '-k',
      directory,
      '-h',
      '127.0.0.1',
      ...optionsOf(settings),
    ],
    url: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
  });
}
