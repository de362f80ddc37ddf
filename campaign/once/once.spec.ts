import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it, jest } from '@jest/globals';
import { killAndRepeat, type Outcome } from '../../test/once/support/killed-runs.ts';
import type { KilledRuns } from '../../test/once/support/open-once.ts';
import { POINTS, type Point, type Stop } from '../../test/once/support/stops.ts';
import { useMariadb, usePostgres } from '../../test/support/databases/use-databases.ts';
import { useRedisServers } from '../../test/support/redis-servers/use-redis-servers.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';

const RUNS = Number(process.env.RUNS ?? 10);
/** Runs at each point that one process has at once, each with a connection. */
const AT_ONCE = 3;

/** Where SQLite has one call that does not return before the statement is done: only the run that ends the process can be there. */
const WITHOUT_WAIT = /begin|commit/;

const folder = mkdtempSync(join(tmpdir(), 'once-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The processes that come to `count` runs at each point; the last run of each ends it. */
function processesFor(
  kind: string,
  name: string,
  points: readonly Point[],
  count: number,
): Stop[][] {
  const random = new SeededRandom(jest.getSeed());
  let keys = 0;
  const stop = (point: Point): Stop => ({ key: `${name}-${(keys += 1)}`, point });
  const last = (point: Point): Stop => ({ ...stop(point), killMs: random.between(0, 3) });
  if (kind !== 'SQLite')
    return Array.from({ length: Math.ceil(count / AT_ONCE) }, (_, index) => [
      ...Array.from({ length: AT_ONCE }, () => points.map(stop)).flat(),
      last(points[index % points.length]!),
    ]);
  const ends = points.filter((point) => WITHOUT_WAIT.test(point));
  const others = points.filter((point) => !ends.includes(point));
  const round = () =>
    ends.map((end, index) => [
      ...others.filter((_, at) => at % ends.length === index).map(stop),
      last(end),
    ]);
  return Array.from({ length: count }, round).flat();
}

/** Effects that are there twice, or not at all, and answers that differ, by point. */
function failuresOf(outcomes: readonly Outcome[]): Record<string, number> {
  const failures: Record<string, number> = {};
  for (const { point, effects, isSame } of outcomes)
    if (effects !== 1 || !isSame) failures[point] = (failures[point] ?? 0) + 1;
  return failures;
}

describe('processes that are killed while they do what is to be done once', () => {
  const postgres = usePostgres(async () => undefined);
  const mariadb = useMariadb(async () => undefined);
  const servers = useRedisServers(1);

  async function play(kind: string, isBeside: boolean, points: readonly Point[], count: number) {
    const url = { PostgreSQL: postgres.url, MariaDB: mariadb.url, SQLite: folder }[kind]!;
    const redisUrl = kind === 'PostgreSQL' ? undefined : servers[0]!.url;
    const settings: Omit<KilledRuns, 'runs'> = { kind, url, redisUrl, isBeside };
    const outcomes: Outcome[] = [];
    const name = isBeside ? 'beside' : 'once';
    for (const runs of processesFor(kind, name, points, count))
      outcomes.push(...(await killAndRepeat({ ...settings, runs })));
    const failures = failuresOf(outcomes);
    process.stderr.write(
      `${kind}, ${name}: ${outcomes.length} runs; not once, or another answer: ${JSON.stringify(failures)}\n`,
    );
    return failures;
  }

  it.each(['PostgreSQL', 'MariaDB', 'SQLite'])(
    'have each effect once with its answer in %s, at whichever of 20 points they end',
    async (kind) => {
      expect(await play(kind, false, POINTS, RUNS)).toEqual({});
    },
    3_600_000,
  );

  it.each(['PostgreSQL', 'MariaDB', 'SQLite'])(
    'have effects twice in %s where the answer is stored beside the effect, as the control has it',
    async (kind) => {
      // It does not look again in the transaction.
      const points = POINTS.filter((point) => point !== 'look is answered');
      const failures = await play(kind, true, points, Math.ceil(RUNS / 5));
      expect(Object.keys(failures)).toEqual(
        expect.arrayContaining(['commit is answered', 'before store']),
      );
    },
    3_600_000,
  );
});
