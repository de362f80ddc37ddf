/** Switch of the checks that cost something: on in the tests and the simulation of this package. */
export const isThorough = process.env['NESTJS_FENCED_LOCK_INVARIANTS'] === 'on';

/**
 * The error for a rule that holds whatever nodes, clocks and callers do, and was found broken: a defect of this package. What
 * is cheap to find out is checked everywhere, so that a lock which can't be accounted for is not handed out.
 */
export function brokenInvariant(rule: string): Error {
  return new Error(`Defect in nestjs-fenced-lock, please report it: broken rule "${rule}".`);
}
