import { setTimeout as sleep } from 'node:timers/promises';
import { chosen, keepHistory, MOST_PLAYS, say, sayHow, someOf } from '../part-options.ts';
import { options } from './chance.ts';
import { judge } from './commit-order.ts';
import { Holders, RIGHT, runHolders } from './holders.ts';
import { mariadbStore } from './mariadb-store.ts';
import { postgresStore } from './postgres-store.ts';
import { MAX_AGE_MS, Record, type Verdict } from './record.ts';
import { redisStore } from './redis-store.ts';
import { sqliteStore } from './sqlite-store.ts';
import type { StressedStore } from './store.ts';

interface StoreUnderStress {
  readonly name: string;
  readonly open: (record: Record) => Promise<StressedStore>;
  /** The share of the writes that it does. */
  readonly share: number;
}

const STORES: readonly StoreUnderStress[] = [
  { name: 'postgresql', open: postgresStore, share: 0.2 },
  { name: 'mariadb', open: mariadbStore, share: 0.15 },
  { name: 'redis', open: redisStore, share: 0.55 },
  { name: 'sqlite', open: sqliteStore, share: 0.1 },
];
const WRITES = options.isQuick ? 5_000 : 100_000;
/** A holder writes up to three times, or is refused: more often where more of them are about at once. */
const WRITES_PER_HOLDER = 0.45;
const CONTROL_HOLDERS = 600;
const CRASHES = 4;
/** Share of the holders, at the latest; a prune comes after half a second, too. In time alone a fast run would have too few. */
const PRUNED_AFTER = 0.05;
const SHOWN_ERRORS = 3;

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
}

/** Puts a store under stress and says what it showed; false when a bar was missed. */
async function stress({ name, open, share }: StoreUnderStress): Promise<boolean> {
  const startedMs = performance.now();
  const record = new Record();
  const holders = new Holders(RIGHT, Math.ceil((WRITES * share) / WRITES_PER_HOLDER), record);
  const store = await open(record);
  const saying = setInterval(() => {
    const percent = Math.floor(holders.progress * 100);
    say(`${name}: ${percent} % of the holders, ${record.refused.toLocaleString('en')} refused`);
  }, 30_000);
  try {
    await runRightHolders(holders, store, record);
    const history = await store.history();
    const verdict = record.judge(history);
    const control: { [way: string]: number } = {};
    for (const way of Object.keys(store.wrong)) control[way] = await playControl(store, way);
    const { refused, pruned, crashes } = record;
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    const outcome = { ...verdict, store: name, refused, pruned, crashes, seconds, control };
    say(JSON.stringify(outcome));
    const wrong = whatIsWrong(outcome);
    if (wrong.length === 0) return true;
    for (const what of wrong) say(`FAILED: ${name}: ${what}`);
    for (const error of [...record.unexpected, ...record.wronglyRefused].slice(0, SHOWN_ERRORS))
      say(`  ${error instanceof Error ? error.stack : String(error)}`);
    const events = history.map((write) => ({ ...write, token: String(write.token) }));
    sayHow(`fence/${name}`, options, keepHistory(`fence ${name} ${options.seed}`, events));
    return false;
  } finally {
    clearInterval(saying);
    await store.close();
  }
}

/** Runs the holders that do it right, while the fence is pruned and the store crashes. */
async function runRightHolders(
  holders: Holders,
  store: StressedStore,
  record: Record,
): Promise<void> {
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
}

/** The number of violations that the judge sees when writers do it wrong in this way. */
async function playControl(store: StressedStore, way: string): Promise<number> {
  let seen = 0;
  for (let play = 0; play < MOST_PLAYS && seen === 0; play += 1) {
    const holders = new Holders(way, CONTROL_HOLDERS, new Record());
    await runHolders(holders, store.workers, new Record(), store.wrong[way]!);
    const history = await store.history();
    const own = history.filter(({ resource }) => resource.startsWith(`${way}-`));
    const { outOfOrder, lostUpdates } = judge(own);
    seen = outOfOrder + lostUpdates;
  }
  return seen;
}

function whatIsWrong(outcome: Outcome): string[] {
  const { commits, pruned, crashes, control } = outcome;
  return [
    ...BARS.filter((bar) => outcome[bar] > 0).map((bar) => `${bar} is ${outcome[bar]}`),
    ...Object.entries(control)
      .filter(([, count]) => count === 0)
      .map(([way]) => `the judge saw nothing wrong with ${way} in ${MOST_PLAYS} plays`),
    ...(commits === 0 ? ['nothing was committed'] : []),
    ...(pruned === 0 ? ['nothing was pruned'] : []),
    ...(crashes === 0 ? ['nothing crashed'] : []),
  ];
}

let failed = 0;
const stores = someOf(chosen(STORES, options.only), options.only);
for (const store of stores) if (!(await stress(store))) failed += 1;
say(`${failed} of ${stores.length} stores missed a bar`);
process.exitCode = failed > 0 ? 1 : 0;
