import type { MarkEvent } from '../campaign-event.ts';
import { intersection, intervalAt, union, type Timeline } from './intervals.ts';
import type { VotingTimes } from './node-health.ts';

/** When which promises about speed hold. */
export interface Phases {
  /** Between measuring and measured, while a quorum is healthy and may vote. */
  readonly healthy: Timeline;
  /** Healthy for so long that everybody has come back. */
  readonly settled: Timeline;
  /** The ends of outages, as far as they are measured. */
  readonly recoveries: readonly Recovery[];
}

export interface Recovery {
  /** A quorum answers from here on. */
  readonly healedAt: number;
  /** Time from which it may vote. */
  readonly votesFrom: number;
  /** The next outage, or the end of the measuring. */
  readonly until: number;
}

/** If no mark ends the measuring, it lasts up to `endsAt`: the run was broken off. */
export function phasesOf(
  marks: readonly MarkEvent[],
  { answers, votes }: VotingTimes,
  recoveryMs: number,
  endsAt: number,
): Phases {
  const timeOf = (name: MarkEvent['mark']) => marks.find(({ mark }) => mark === name)?.at;
  const measuredFrom = timeOf('measuring') ?? Infinity;
  const measured = union([{ from: measuredFrom, to: timeOf('measured') ?? endsAt }]);
  const healthy = intersection(measured, votes);
  const recovered = healthy.filter(({ from }) => from > measuredFrom);
  return {
    healthy,
    settled: union(
      healthy.map(({ from, to }) => ({ from: from > measuredFrom ? from + recoveryMs : from, to })),
    ),
    recoveries: recovered.map(({ from, to }) => ({
      healedAt: intervalAt(answers, from)!.from,
      votesFrom: from,
      until: to,
    })),
  };
}
