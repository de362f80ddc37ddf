/** A committed write, in the order of commits. */
export interface CommittedWrite {
  readonly resource: string;
  /** The identity of the write. */
  readonly writer: string;
  readonly token: bigint;
  /** The write whose value it was derived from. */
  readonly readFrom: string;
}

/** The faults of a history. */
export interface Violations {
  readonly commits: number;
  /** Writes committed after a write with a newer token on the same resource. */
  readonly outOfOrder: number;
  /** The writes that were not derived from the write before them: that one's update is lost. */
  readonly lostUpdates: number;
}

/** The value every resource starts with. */
export const START = 'start';

/** Judges a history by the order of its commits alone. */
export function judge(history: readonly CommittedWrite[]): Violations {
  const newest = new Map<string, bigint>();
  const last = new Map<string, string>();
  let outOfOrder = 0;
  let lostUpdates = 0;
  for (const { resource, writer, token, readFrom } of history) {
    const before = newest.get(resource) ?? 0n;
    if (token < before) outOfOrder += 1;
    else newest.set(resource, token);
    if (readFrom !== (last.get(resource) ?? START)) lostUpdates += 1;
    last.set(resource, writer);
  }
  return { commits: history.length, outOfOrder, lostUpdates };
}
