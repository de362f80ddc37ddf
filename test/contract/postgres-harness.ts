import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import type { PostgresNode } from '../../lib/postgres/index.ts';
import type { ContractHarness } from './contract-harness.ts';
import { lacks } from './lock-node.contract.ts';
import { RETENTION_MS } from './contract-client.ts';

/** Runs one statement outside of any node. */
export type RunSql = (sql: string, values: readonly unknown[]) => Promise<{ rows: any[] }>;

/** The contract's harness around the tables of one database. */
export function createPostgresHarness(
  run: RunSql,
  makeNode: () => PostgresNode,
  prefix: string,
): ContractHarness {
  const nodes: PostgresNode[] = [];
  const { marker } = new NodeNames(prefix, []);
  const lockOf = (floorName: string) => prefix + floorName.slice(`${prefix}#floor:`.length);
  const upsert = async (resource: string, changes: Readonly<Record<string, string>>) => {
    const set = Object.entries(changes).map(([column, value]) => `${column} = ${value}`);
    await run('INSERT INTO redlock_lease (resource) VALUES ($1) ON CONFLICT DO NOTHING', [
      resource,
    ]);
    await run(`UPDATE redlock_lease SET ${set.join(', ')} WHERE resource = $1`, [resource]);
  };
  const left =
    'ceil(extract(epoch FROM CASE WHEN isfinite(valid_until) THEN valid_until END - clock_timestamp()) * 1000)';
  return {
    markerName: marker,
    names: (...keys) => new NodeNames(prefix, keys),
    createNode() {
      const node = makeNode();
      nodes.push(node);
      return node;
    },
    async nowMicros() {
      const { rows } = await run(
        'SELECT extract(epoch FROM clock_timestamp()) * 1000000 AS now',
        [],
      );
      return Math.floor(Number(rows[0].now));
    },
    async readLock(lockName) {
      const { rows } = await run(
        `SELECT holder, ${left} AS left FROM redlock_lease
         WHERE resource = $1 AND holder IS NOT NULL AND valid_until > clock_timestamp()`,
        [lockName],
      );
      const [row] = rows;
      return row === undefined ? null : { holder: row.holder, remainingMs: Number(row.left ?? -1) };
    },
    async writeLock(lockName, holder, ttlMs) {
      const end =
        ttlMs === null ? "'infinity'" : `clock_timestamp() + interval '${ttlMs} milliseconds'`;
      await upsert(lockName, { holder: `'${holder}'`, valid_until: end });
    },
    deleteLock: (lockName) => upsert(lockName, { holder: 'NULL' }),
    async readFloor(floorName) {
      // A row may be deleted once its lock, and the time that its number names, are R ago.
      const { rows } = await run(
        `SELECT token, previous, greatest(${left}, token / 1000 + 1 - extract(epoch FROM clock_timestamp()) * 1000) AS left
         FROM redlock_lease WHERE resource = $1 AND token > 0`,
        [lockOf(floorName)],
      );
      const [row] = rows;
      const remainingMs = RETENTION_MS + Number(row?.left ?? 0);
      if (row === undefined || remainingMs <= 0) return null;
      return { floor: Number(row.token), previous: Number(row.previous), remainingMs };
    },
    writeFloor: (floorName, { floor, previous }) =>
      upsert(lockOf(floorName), { token: String(floor), previous: String(previous) }),
    deleteFloor: (floorName) => upsert(lockOf(floorName), { token: '0', previous: '0' }),
    forgetScripts: async () => undefined,
    deleteMarker: () => lacks('forgets'),
    endGuard: () => lacks('forgets'),
    takeMarkerOfAnother: () => lacks('forgets'),
    writeVersions: () => lacks('forgets'),
    flush: () => lacks('forgets'),
    restart: () => lacks('restart'),
    advance: () => lacks('clock'),
    async close() {
      await Promise.all(nodes.map((node) => node.close()));
    },
  };
}
