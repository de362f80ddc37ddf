/**
 * The moment by which a process must have reacted to something due at `at`; stalls in a row excuse together.
 *
 * `stalls`: when the process did not run, in order of their begins.
 */
export function excusedUntil(
  at: number,
  stalls: readonly { readonly from: number; readonly to: number }[],
  toleranceMs: number,
): number {
  let due = at + toleranceMs;
  for (const stall of stalls) {
    if (stall.from > due) break;
    if (stall.to > at) due = Math.max(due, stall.to + toleranceMs);
  }
  return due;
}
