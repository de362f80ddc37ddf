import { collectHoldings, type Holding } from '../../test/history/holding.ts';
import type { LockHistoryEvent } from '../../test/history/lock-history.ts';
import { checkTokenOrder } from '../../test/history/token-order-check.ts';
import type { AccessEvent, CampaignEvent, EventOf } from '../faults/campaign-event.ts';

/** What a history shows. */
export interface Figures {
  readonly grants: number;
  /** Holders that went on, and were not told otherwise, while another one was in its section. */
  readonly overlaps: number;
  /** Holders that wrote when another one had been given their lock. */
  readonly untold: number;
  /** Holders whose lock was given to another one, and that were told before they wrote. */
  readonly told: number;
  /** Writes that were taken, and are missing in the end. */
  readonly lost: number;
  /** The same behind the fence; undefined where the library has no token. */
  readonly lostFenced: number | undefined;
  /** Tokens that are not higher than those before. */
  readonly disorder: number;
  /** The longest time from the end of a holder that was killed to the next grant, infinity where there was none; undefined: none was killed. */
  readonly recoveryMs: number | undefined;
  /** Processes that the library ended, by an error that no caller can catch. */
  readonly crashes: number;
  /** Calls that never ended. */
  readonly hangs: number;
  /** Errors that are not of the classes of the library. */
  readonly rawErrors: readonly string[];
}

const LOCK_EVENTS = ['granted', 'step', 'lost', 'released'];

export function judge(history: readonly CampaignEvent[]): Figures {
  const of = <Type extends CampaignEvent['type']>(type: Type) =>
    history.filter((event) => event.type === type) as EventOf<Type>[];
  const locks = history.filter(({ type }) => LOCK_EVENTS.includes(type)) as LockHistoryEvent[];
  const holdings = collectHoldings(locks);
  const kills = of('mark').flatMap((mark) => (mark.mark === 'worker-killed' ? [mark] : []));
  const problems = (kind: string) => of('problem').filter((event) => event.kind === kind);
  const crashes = problems('uncaught-exception');
  const endOf = ({ granted: { process }, released, lost }: Holding): number =>
    released?.at ??
    lost?.at ??
    kills.find(({ worker }) => worker === process)?.at ??
    crashes.find((crash) => crash.process === process)?.at ??
    Infinity;
  const writes = of('access').filter(({ operation }) => operation === 'write');
  const sections = holdings.map((holding) => ({ ...holding, leftAt: endOf(holding) }));
  const superseded = sections.flatMap((section, index) => {
    const rivals = sections.slice(index + 1).filter((each) => each.granted.at < section.leftAt);
    return rivals.length > 0 ? [{ ...section, rivals, since: rivals[0]!.granted.at }] : [];
  });
  const count = (test: (each: (typeof superseded)[number]) => boolean): number =>
    superseded.filter(test).length;
  const wroteLate = ({ granted: { holder }, since }: (typeof superseded)[number]): boolean =>
    writes.some((each) => each.view === 'unfenced' && each.holder === holder && each.at > since);
  const recoveries = kills.map(({ at }) => {
    const next = holdings.find(({ granted }) => granted.at > at);
    return next === undefined ? Infinity : next.granted.at - at;
  });
  const hasTokens = holdings.some(({ granted }) => granted.token > 0);
  return {
    grants: holdings.length,
    overlaps: count(({ rivals, steps }) =>
      steps.some(({ at }) => rivals.some(({ granted, leftAt }) => granted.at < at && at < leftAt)),
    ),
    untold: count(wroteLate),
    told: count((each) => each.lost !== undefined && !wroteLate(each)),
    lost: lostOf(writes, 'unfenced'),
    lostFenced: hasTokens ? lostOf(writes, 'fenced') : undefined,
    disorder: hasTokens ? checkTokenOrder('lock', holdings).length : 0,
    recoveryMs: kills.length > 0 ? Math.max(...recoveries) : undefined,
    crashes: crashes.length,
    hangs: problems('does-not-exit').length,
    rawErrors: [...new Set(problems('raw-error').map(({ message }) => message))],
  };
}

/** Each write adds one to what its holder has read: what was taken and is not in the last number is lost. */
function lostOf(writes: readonly AccessEvent[], view: AccessEvent['view']): number {
  const taken = writes.filter((each) => each.view === view && each.accepted);
  return taken.length - (taken.at(-1)?.value ?? 0);
}
