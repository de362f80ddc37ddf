import { setTimeout as sleep } from 'node:timers/promises';
import { historyNow } from '../../test/history/lock-history.ts';
import type { Outcome, Play } from '../carry-out.ts';
import { collectFacts } from '../faults/judge/facts.ts';
import { checkLocks } from '../faults/judge/locks.ts';
import { checkRecords } from '../faults/judge/records.ts';
import { RUN_LIMITS, type CampaignViolation } from '../faults/judge/verdict.ts';
import type { CampaignEvent } from '../faults/campaign-event.ts';
import { Stage, type StageSettings, type TableSizes } from './stage.ts';
import { KEYS, TTL_MS, type Load } from './worker-settings.ts';

/** The names of what is done to the stage. */
type Fault =
  | 'crashDatabase'
  | 'crashPooler'
  | 'cutConnections'
  | 'loseNetwork'
  | 'killWorker'
  | 'stopWorker'
  | 'stopBetweenCheckAndWrite'
  | 'stopRedis';

/** A way to play, or functions broken on purpose that the same judge has to notice. */
export interface DatabasePlay extends Play {
  readonly what: string;
  readonly faults: readonly Fault[];
  readonly holdMs: Load['holdMs'];
  readonly redisServers?: number;
  readonly breaks?: StageSettings['breaks'];
}

const OF_DATABASE = ['crashDatabase', 'crashPooler', 'cutConnections', 'loseNetwork'] as const;
const OF_WORKERS = ['killWorker', 'stopWorker', 'stopBetweenCheckAndWrite'] as const;
const USUAL_HOLD_MS = [20, 300] as const;
const replaced =
  (find: string, replace: string) =>
  (definition: string): string =>
    definition.replace(find, () => replace);

export const PLAYS: readonly DatabasePlay[] = [
  {
    name: 'one database',
    what: 'PostgreSQL alone gives the locks, behind PgBouncer in transaction mode',
    faults: [...OF_DATABASE, ...OF_WORKERS],
    minutes: 30,
    quickMinutes: 1,
    holdMs: USUAL_HOLD_MS,
  },
  {
    name: 'unlike servers',
    what: 'PostgreSQL and two Redis servers are a quorum, of which one is away at times',
    faults: [...OF_DATABASE, ...OF_WORKERS, 'stopRedis', 'stopRedis', 'stopRedis'],
    minutes: 5,
    quickMinutes: 0.5,
    holdMs: USUAL_HOLD_MS,
    redisServers: 2,
  },
  {
    name: 'control others',
    what: 'broken on purpose: a grant looks for no holder',
    faults: OF_WORKERS,
    minutes: 0.3,
    quickMinutes: 0.3,
    holdMs: USUAL_HOLD_MS,
    breaks: replaced('holder IS NULL OR holder IN (me, kept) OR', 'true OR'),
    caughtBy: ['overlapping-validity'],
  },
  {
    name: 'control disk',
    what: 'broken on purpose: a grant is not on the disk when it is acknowledged',
    faults: ['crashDatabase'],
    minutes: 0.5,
    quickMinutes: 0.5,
    holdMs: [TTL_MS / 2, TTL_MS],
    breaks: replaced('ELSIF NOT is_durable THEN', 'ELSE'),
    caughtBy: ['overlapping-validity', 'decreasing-token'],
  },
  {
    name: 'control claim',
    what: 'broken on purpose: a grant is no claim',
    faults: ['stopBetweenCheckAndWrite'],
    minutes: 0.5,
    quickMinutes: 0.5,
    holdMs: [TTL_MS / 4, TTL_MS / 2],
    breaks: replaced("jsonb_array_length(called->'fenced') - 1", '-1'),
    caughtBy: ['lost-update'],
  },
];

const PAUSE_MS = [200, 2_000] as const;
/** Longer than leases and lines that are out of date stay: they are deleted when they are ten minutes old, or ten minutes later. */
const RETENTION_MS = 21 * 60_000;

export async function play(
  { faults, holdMs, breaks, redisServers = 0 }: DatabasePlay,
  {
    workers,
    callers,
    seed,
    durationMs,
  }: { [name in 'workers' | 'callers' | 'seed' | 'durationMs']: number },
): Promise<Outcome> {
  const load = { callers, holdMs };
  const stage = await Stage.open({ workers, load, redisServers, breaks }, seed);
  try {
    const counts = new Map<Fault, number>();
    const end = historyNow() + durationMs;
    const suffer = async (until: number) => {
      while (historyNow() < until) {
        await sleep(stage.random.between(...PAUSE_MS));
        const fault = stage.random.pick(faults);
        counts.set(fault, 1 + (counts.get(fault) ?? 0));
        await stage[fault]();
      }
    };
    const held = [await stage.connectionsOfHolders()];
    await suffer(end - durationMs / 2);
    const half = await stage.tableSizes();
    await suffer(end);
    await sleep(TTL_MS);
    held.push(await stage.connectionsOfHolders());
    const history = await stage.finish();
    const whole = await stage.tableSizes();
    const kills = stage.kills.filter((at) => at > historyNow() - RETENTION_MS).length;
    const bounds = {
      // The checks of the start have a row, too.
      leases: KEYS + workers * callers + 1,
      waiters: KEYS * kills,
      bytes: 2 * half.bytes,
    };
    return judge(history, Math.max(...held), [whole, bounds], Object.fromEntries(counts));
  } finally {
    await stage.end();
  }
}

function judge(
  history: readonly CampaignEvent[],
  connectionsHeld: number,
  [sizes, bounds]: readonly [TableSizes, TableSizes],
  faults: Readonly<Record<string, number>>,
): Outcome {
  const facts = collectFacts(history, RUN_LIMITS);
  const locks = checkLocks(facts);
  const records = checkRecords(facts);
  const problems = facts.of('problem').map(({ kind: rule, process, message }) => ({
    rule,
    message: `${process}: ${message}`,
  }));
  const broken = (isBroken: boolean, message: string): readonly CampaignViolation[] =>
    isBroken ? [{ rule: 'broken-promise', message }] : [];
  const tables = (['leases', 'waiters', 'bytes'] as const).flatMap((name) =>
    broken(
      sizes[name] > bounds[name],
      `${sizes[name]} ${name} in the end, more than ${bounds[name]}`,
    ),
  );
  const held = broken(
    connectionsHeld > 0,
    `${connectionsHeld} connections were held while work under locks ran`,
  );
  const { unfencedStaleWrites, fencedRefusals } = records.measures;
  const figures = {
    grants: facts.holdings.length,
    extensions: facts.of('extended').length,
    losses: facts.of('lost').length,
    'writes behind the fence': facts
      .of('access')
      .filter(({ view, accepted }) => view === 'fenced' && accepted).length,
    'stale writes: unfenced took': unfencedStaleWrites,
    'the fence refused': fencedRefusals,
    ...sizes,
    ...faults,
  };
  return {
    violations: [...locks.violations, ...records.violations, ...problems, ...tables, ...held],
    withoutEffect: unfencedStaleWrites === 0 ? 'no write was stale' : undefined,
    figures,
    history,
  };
}
