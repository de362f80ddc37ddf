import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { SqliteDatabase } from '../../../lib/fencing/index.ts';

export type OpenSqlite = SqliteDatabase & { close(): void };

/** The class of node:sqlite. Node.js 20 has none. */
export function nodeSqlite(): (new (path: string, options?: object) => OpenSqlite) | undefined {
  try {
    return createRequire(join(process.cwd(), 'package.json'))('node:sqlite').DatabaseSync;
  } catch {
    return undefined;
  }
}
