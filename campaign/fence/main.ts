import { setTimeout as sleep } from 'node:timers/promises';
import { positiveInteger, readOptions } from '../../test/support/command-line.ts';
import { judge } from './commit-order.ts';
import { Holders, RIGHT, runHolders } from './holders.ts';
import { mariadbStore } from './mariadb-store.ts';
import { postgresStore } from './postgres-store.ts';
import { MAX_AGE_MS, Record, type Verdict } from './record.ts';
import { redisStore } from './redis-store.ts';
import { sqliteStore } from './sqlite-store.ts';
import type { StressedStore } from './store.ts';

const USAGE = `
Usage: npm run test:fence -- [options]

Holders overlap as if there were no lock, while the fence forgets, clocks jump, old holders come back and servers crash. The
order of commits judges: the write-ahead log of PostgreSQL, the binary log of MariaDB, the only writer of SQLite and Redis.

  --writes <number>    fenced writes in all that must have been committed (100000)
  --only <store>       one of postgresql, mariadb, sqlite, redis
  --help               prints this
`;

const STORES: Readonly<{ [name: string]: (record: Record) => Promise<StressedStore> }> = {
  postgresql: postgresStore,
  mariadb: mariadbStore,
  redis: redisStore,
  sqlite: sqliteStore,
};
/** Share of the writes that each store does. */
const SHARES: Readonly<{ [name: string]: number }> = {
  postgresql: 0.2,
  mariadb: 0.15,
  redis: 0.55,
  sqlite: 0.1,
};
/** A holder writes up to three times, or is refused: more often where more of them are about at once. */
const WRITES_PER_HOLDER = 0.45;
const CONTROL_HOLDERS = 600;
const CRASHES = 4;
/** Share of the holders, at the latest; a prune comes after half a second, too. In time alone a fast run would have too few. */
const PRUNED_AFTER = 0.05;

/** Counts that must be zero. */
const BARS = [
  'outOfOrder',
  'lostUpdates',
  'missing',
  'wronglyRefused',
  'unreported',
  'unexpected',
] as const;

interface Outcome extends Verdict {
  readonly store: string;
  readonly refused: number;
  readonly pruned: number;
  readonly crashes: number;
  readonly seconds: number;
  /** Violations found by the same judge, for each way of writers that do it wrong. */
  readonly control: { readonly [way: string]: number };
  readonly errors: readonly unknown[];
}

async function stress(name: string, writes: number): Promise<Outcome> {
  const startedMs = performance.now();
  const record = new Record();
  const holders = new Holders(RIGHT, Math.ceil(writes / WRITES_PER_HOLDER), record);
  const say = (text: string) => process.stderr.write(`${name}: ${text}\n`);
  say('starts');
  const store = await STORES[name]!(record);
  const saying = setInterval(() => {
    const share = Math.floor(holders.progress * 100);
    say(`${share} % of the holders, ${record.refused.toLocaleString('en')} refused`);
  }, 30_000);
  try {
    let isOver = false;
    const pruning = (async () => {
      for (let share = PRUNED_AFTER; !isOver; share += PRUNED_AFTER) {
        for (let waits = 0; waits < 25 && !isOver && holders.progress < share; waits += 1)
          await sleep(20);
        await store.prune(String((Date.now() - MAX_AGE_MS) * 1_000)).then(
          (count) => void (record.pruned += count),
          (error: unknown) => record.failed(error),
        );
      }
    })();
    const crashing = (async () => {
      for (let count = 1; count <= CRASHES; count += 1) {
        while (!isOver && holders.progress < count / (CRASHES + 1)) await sleep(20);
        if (isOver) return;
        record.crashed();
        await store.crash();
        record.crashed();
        record.crashes -= 1;
      }
    })();
    await runHolders(holders, store.workers, record, (holder) => store.right(holder));
    isOver = true;
    await Promise.all([pruning, crashing]);
    for (const holder of holders.last())
      await store.right(holder).catch((error: unknown) => record.wronglyRefused.push(error));
    // Reports may come after the call, such as those of advanceSync.
    await sleep(100);
    const verdict = record.judge(await store.history());
    const control: { [way: string]: number } = {};
    for (const [way, run] of Object.entries(store.wrong)) {
      const controls = new Holders(way, CONTROL_HOLDERS, new Record());
      await runHolders(controls, store.workers, new Record(), run);
      const history = await store.history();
      const seen = history.filter(({ resource }) => resource.startsWith(`${way}-`));
      const { outOfOrder, lostUpdates } = judge(seen);
      control[way] = outOfOrder + lostUpdates;
    }
    const { refused, pruned, crashes, unexpected, wronglyRefused } = record;
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    const errors = [...unexpected, ...wronglyRefused];
    return { ...verdict, store: name, refused, pruned, crashes, seconds, control, errors };
  } finally {
    clearInterval(saying);
    await store.close();
  }
}

async function main(): Promise<void> {
  const options = readOptions(
    { writes: { type: 'string', default: '100000' }, only: { type: 'string' } },
    USAGE,
  );
  const writes = positiveInteger('writes', options.writes);
  const startedMs = performance.now();
  const names = Object.keys(STORES).filter((name) => (options.only ?? name) === name);
  const outcomes: Outcome[] = [];
  for (const name of names) {
    const outcome = await stress(name, options.only ? writes : writes * SHARES[name]!);
    const { errors, ...figures } = outcome;
    process.stdout.write(`${JSON.stringify(figures)}\n`);
    for (const error of errors.slice(0, 3))
      process.stdout.write(`  ${error instanceof Error ? error.stack : String(error)}\n`);
    outcomes.push(outcome);
  }
  const committed = outcomes.reduce((sum, { commits }) => sum + commits, 0);
  const wrong = outcomes.flatMap((each) => [
    ...BARS.filter((bar) => each[bar] > 0).map((bar) => `${each.store}: ${bar} is ${each[bar]}`),
    ...Object.entries(each.control)
      .filter(([, count]) => count === 0)
      .map(([way]) => `${each.store}: the judge saw nothing wrong with ${way}`),
    ...(each.pruned === 0 ? [`${each.store}: nothing was pruned`] : []),
    ...(each.crashes === 0 ? [`${each.store}: nothing crashed`] : []),
  ]);
  if (committed < writes) wrong.push(`only ${committed} fenced writes were committed`);
  process.stdout.write(
    `${committed} fenced writes committed in ${Math.round((performance.now() - startedMs) / 1_000)} s. ${wrong.length === 0 ? 'Every bar held.' : `MISSED:\n${wrong.join('\n')}`}\n`,
  );
  process.exitCode = wrong.length === 0 ? 0 : 1;
}

await main();
