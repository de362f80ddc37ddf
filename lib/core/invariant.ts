/** Set it to `on` where the checks that cost something should run, too: in the tests and the simulation of this package. */
const isThorough = process.env['NESTJS_FENCED_LOCK_INVARIANTS'] === 'on';

/**
 * What must be true here whatever nodes, clocks and callers do. It costs a comparison, so it runs everywhere: a lock that
 * this process can't account for is not handed out.
 *
 * @throws Error when it is not true, which is a defect of this package
 */
export function invariant(isTrue: boolean, rule: string): void {
  if (!isTrue)
    throw new Error(`Defect in nestjs-fenced-lock, please report it: broken rule "${rule}".`);
}

/** As {@link invariant}, for what costs more to find out. */
export function thoroughInvariant(isTrue: () => boolean, rule: string): void {
  if (isThorough) invariant(isTrue(), rule);
}
