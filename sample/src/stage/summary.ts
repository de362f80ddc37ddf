/** Promise of an act. */
export interface Promised {
  readonly id: string;
  readonly text: string;
}

/** Finding of the check of a promise. */
export interface Observation {
  readonly id: string;
  readonly isKept: boolean;
  readonly observed: string;
}

/** Act as it was played, or not. */
export interface ActReport {
  readonly title: string;
  readonly promises: readonly Promised[];
  readonly observations: readonly Observation[];
  /** Reason why it was not played. */
  readonly skipped?: string;
  /** Reason why it ended early. */
  readonly failure?: string;
}

export type Verdict = 'kept' | 'BROKEN' | 'not played';

export interface SummaryRow {
  readonly act: string;
  readonly promised: string;
  readonly observed: string;
  readonly verdict: Verdict;
}

/**
 * Holds every promise against what was observed. A promise of a played act that was never checked is broken, and so is one that
 * was checked twice with different results: only what was seen counts as kept.
 */
export function summarize(reports: readonly ActReport[]): SummaryRow[] {
  return reports.flatMap((report) =>
    report.promises.map((promised) => ({
      act: report.title,
      promised: promised.text,
      ...judge(report, promised),
    })),
  );
}

function judge(report: ActReport, promised: Promised): Pick<SummaryRow, 'observed' | 'verdict'> {
  if (report.skipped !== undefined) return { observed: report.skipped, verdict: 'not played' };
  const found = report.observations.filter(({ id }) => id === promised.id);
  if (found.length === 0) {
    return { observed: report.failure ?? 'it was never checked', verdict: 'BROKEN' };
  }
  return {
    observed: found.map(({ observed }) => observed).join('; '),
    verdict: found.every(({ isKept }) => isKept) ? 'kept' : 'BROKEN',
  };
}

/** 0 when every promise that could be played was kept, and at least one was; else 1. */
export function exitCodeOf(rows: readonly SummaryRow[]): 0 | 1 {
  if (rows.some(({ verdict }) => verdict === 'BROKEN')) return 1;
  return rows.some(({ verdict }) => verdict === 'kept') ? 0 : 1;
}
