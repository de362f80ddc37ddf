import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { checkHistory } from '../history/check-history.ts';
import type { LockHistoryEvent } from '../history/lock-history.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/redis-server.ts';
import { compileWorker, type CompiledWorker } from './compile-worker.ts';
import { runLoad, type LoadPlan, type LoadResult } from './run-load.ts';

// Goal: what processes believe about their locks is checked from outside, while processes and nodes are killed and frozen.
// Method: each worker writes every grant, extension, step, release and loss into a file at the moment it learns of it, on
// a clock all processes share; afterwards the merged history is judged. LOAD_SEED repeats the schedule of faults.

const SEED = Number(process.env['LOAD_SEED'] ?? Math.floor(Math.random() * 1_000_000));
const SECONDS = Number(process.env['LOAD_SECONDS'] ?? 20);
const KEYS = 10;

describe(`token order under load (LOAD_SEED=${SEED})`, () => {
  let worker: CompiledWorker;
  let servers: RedisServer[] = [];

  beforeAll(async () => {
    [worker, servers] = await Promise.all([compileWorker(), startRedisServers(5)]);
  }, 120_000);

  afterAll(async () => {
    worker?.remove();
    await Promise.all(servers.map((server) => server.stop()));
  }, 60_000);

  function run(plan: Partial<LoadPlan>): Promise<LoadResult> {
    return runLoad({
      script: worker.script,
      servers,
      locks: 'redlock',
      seed: SEED,
      durationMs: SECONDS * 1_000,
      workers: 5,
      keys: KEYS,
      ttlMs: 1_000,
      faults: true,
      wallSkewMs: 30,
      ...plan,
    });
  }

  it('no token twice, none lower, never two valid holders, every loss told in time', async () => {
    const { history, faults, failures } = await run({});
    expect(failures).toEqual([]);
    expect(checkHistory(history)).toEqual([]);
    expectEnough(
      history,
      faults,
      servers.some(({ canFault }) => canFault),
    );
  }, 180_000);

  describe('negative controls: the checker notices locks that are broken', () => {
    it('exclusion inside each process only', async () => {
      const { history, failures } = await run({
        locks: 'without-servers',
        faults: false,
        durationMs: 2_000,
      });
      expect(failures).toEqual([]);
      expect(rules(history)).toEqual(
        expect.arrayContaining(['overlapping-validity', 'decreasing-token', 'fenced-mutex']),
      );
    }, 60_000);

    it('right locks with tokens of clocks that differ', async () => {
      const { history, failures } = await run({
        locks: 'wall-clock-tokens',
        wallSkewMs: 1_000,
        faults: false,
        seed: SEED + 1,
        durationMs: 4_000,
      });
      expect(failures).toEqual([]);
      expect(rules(history)).toContain('decreasing-token');
      expect(rules(history)).not.toContain('overlapping-validity');
    }, 60_000);
  });
});

function rules(history: readonly LockHistoryEvent[]): string[] {
  return [...new Set(checkHistory(history).map(({ rule }) => rule))];
}

/** A run in which little happened proves nothing. */
function expectEnough(
  history: readonly LockHistoryEvent[],
  faults: LoadResult['faults'],
  canHarmNodes: boolean,
): void {
  const of = <Type extends LockHistoryEvent['type']>(type: Type) =>
    history.filter(
      (event): event is Extract<LockHistoryEvent, { type: Type }> => event.type === type,
    );
  const grants = of('granted');
  process.stdout.write(
    `load: ${grants.length} grants, ${of('extended').length} extensions, ${of('lost').length} losses, ${of('refused').length} refusals; ` +
      `${faults.workerKills} kills and ${faults.workerFreezes} freezes of workers, ${faults.nodeKills} kills and ${faults.nodeFreezes} freezes of nodes\n`,
  );
  const seen = {
    keys: new Set(grants.flatMap(({ keys }) => keys)).size,
    workers: new Set(grants.map(({ process }) => process.split('/')[0])).size,
    restartedWorkers: grants.some(({ process }) => !process.endsWith('/0')),
    grants: grants.length > 5 * SECONDS,
    sets: grants.some(({ keys }) => keys.length > 1),
    extensions: of('extended').length > 0,
    reentries: of('reentered').length > 0,
    losses: of('lost').length > 0,
    stalls: of('stalled').length > 0,
    refusals: of('refused').length > 0,
    workerKills: faults.workerKills > SECONDS / 10,
    workerFreezes: faults.workerFreezes > SECONDS / 5,
    nodeFaults: canHarmNodes ? faults.nodeKills > 0 && faults.nodeFreezes > 0 : true,
  };
  const enough = { keys: KEYS, workers: 5 };
  const rest = Object.keys(seen).filter((name) => !(name in enough));
  expect(seen).toEqual({ ...Object.fromEntries(rest.map((name) => [name, true])), ...enough });
}
