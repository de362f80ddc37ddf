import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { killAndRepeat } from './support/killed-runs.ts';
import type { Point } from './support/stops.ts';

// Each of 20 points, many times: `npm run campaign -- once`.
const POINTS: readonly Point[] = [
  'the slow part is done',
  'effect is answered',
  'store is answered',
  'the answer is known',
  'commit is sent',
];

const folder = mkdtempSync(join(tmpdir(), 'once-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a process that is killed while it does what is to be done once', () => {
  const postgres = usePostgres(async () => undefined);
  const mariadb = useMariadb(async () => undefined);
  const servers = useRedisServers(1);

  it.each(['PostgreSQL', 'MariaDB', 'SQLite'])(
    'leaves the effect and its answer, or neither of them, in %s',
    async (kind) => {
      const url = { PostgreSQL: postgres.url, MariaDB: mariadb.url, SQLite: folder }[kind]!;
      const redisUrl = kind === 'PostgreSQL' ? undefined : servers[0]!.url;
      // The last one ends the process.
      const runs = POINTS.map((point, index) => ({
        key: `${kind}-${index}`,
        point,
        ...(index === POINTS.length - 1 && { killMs: 0 }),
      }));
      const outcomes = await killAndRepeat({ kind, url, redisUrl, runs });
      expect(outcomes).toEqual(POINTS.map((point) => ({ point, effects: 1, isSame: true })));
    },
  );
});
