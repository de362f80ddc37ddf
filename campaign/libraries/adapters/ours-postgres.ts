import pg from 'pg';
import { postgresNode } from '../../../lib/postgres/index.ts';
import type { Library } from '../library.ts';
import { library as ours, openLocks } from './ours.ts';

const poolOf = (connectionString: string): pg.Pool =>
  new pg.Pool({ connectionString }).on('error', () => undefined);

export const library: Library = {
  servers: 'postgres',
  errors: ours.errors,
  defaults: {
    what: 'PostgreSQL alone',
    servers: 1,
    mayOverlap: [],
    async open([url], ttlMs) {
      const pool = poolOf(url!);
      return openLocks(ttlMs, [postgresNode(pool)], () => pool.end());
    },
    async prepare([url]) {
      const pool = poolOf(url!);
      await pool.query(postgresNode(pool).ddl());
      await pool.end();
    },
  },
};
