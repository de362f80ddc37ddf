import { Redis } from 'ioredis';
import pg from 'pg';
import { postgresNode } from '../../lib/postgres/index.ts';
import { startPostgres } from '../../test/support/databases/postgres-server.ts';
import { Link } from '../../test/support/link.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';

/** Where the locks of a function are, behind a network that can forget its connections. */
export interface Place {
  readonly name: string;
  readonly urls: readonly string[];
  readonly links: readonly Link[];
  /** Connections that idle for longer are closed by the server; 0 = none. */
  setIdleLimit(seconds: number): Promise<unknown>;
  /** How many connections all functions have. */
  countConnections(): Promise<number>;
  close(): Promise<void>;
}

async function linkTo(url: string): Promise<Link> {
  const { hostname, port } = new URL(url);
  return Link.open({ host: hostname, port: Number(port) });
}

async function openRedis(count: number): Promise<Place> {
  const servers = await startRedisServers(count, { own: true });
  const links = await Promise.all(servers.map(({ url }) => linkTo(url)));
  const clients = servers.map(({ url }) => new Redis(url));
  return {
    name: `${count} Redis`,
    urls: links.map(({ url }) => url),
    links,
    setIdleLimit: (seconds) =>
      Promise.all(clients.map((client) => client.config('SET', 'timeout', seconds))),
    countConnections: async () => {
      const lists = clients.map((client) => client.client('LIST') as Promise<string>);
      const all = (await Promise.all(lists)).map((list) => list.trim().split('\n').length - 1);
      return all.reduce((sum, each) => sum + each, 0);
    },
    close: async () => {
      for (const client of clients) client.disconnect();
      await Promise.all(links.map((link) => link.close()));
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

async function openPostgres(): Promise<Place> {
  const server = await startPostgres();
  const pool = new pg.Pool({ connectionString: server.url, max: 1 });
  pool.on('error', () => undefined);
  const link = await linkTo(server.url);
  const url = new URL(server.url);
  url.port = String(link.port);
  await pool.query(postgresNode(pool).ddl());
  return {
    name: 'PostgreSQL',
    urls: [url.href],
    links: [link],
    // It holds for sessions that begin from now on.
    setIdleLimit: (seconds) =>
      pool.query(`ALTER ROLE CURRENT_USER SET idle_session_timeout = '${seconds}s'`),
    countConnections: async () => {
      const count = `SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`;
      return Number((await pool.query(count)).rows[0].count);
    },
    close: async () => {
      await pool.end();
      await link.close();
      await server.stop();
    },
  };
}

export const PLACES: readonly (() => Promise<Place>)[] = [
  () => openRedis(1),
  () => openRedis(3),
  openPostgres,
];
