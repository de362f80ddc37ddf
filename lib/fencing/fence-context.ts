import { AsyncLocalStorage } from 'node:async_hooks';
import { FencedUsageError } from '../core/errors.ts';
import type { FenceClaim } from './fence-claim.ts';
import { isThenable } from './steps.ts';

/** The claims that a fence transaction holds. */
export interface HeldClaims {
  readonly claims: readonly FenceClaim[];
  /** Whether some of them were claimed again inside, and so taken as claimed. */
  isCovering?: boolean;
}

/** A run of a fence transaction's work. */
interface Frame {
  readonly held: HeldClaims;
  readonly context: FenceContext;
  /** Work that was not awaited outlives its transaction. */
  isOver: boolean;
}

/** The frames of all fences, the innermost first: two of them may share the only connection. */
const storage = new AsyncLocalStorage<readonly Frame[]>();

/** The frames around this call. */
const frames = (): readonly Frame[] => (storage.getStore() ?? []).filter(({ isOver }) => !isOver);

/** The claims of the fence transaction over `database` in whose work this call runs. */
export const claimsAround = (database: object): readonly FenceClaim[] | undefined =>
  frames().find(({ context }) => context.database === database)?.held.claims;

/** Runs what a fence does for itself, which is part of no work. */
export function outsideWork<Result>(run: () => Result): Result {
  return storage.run([], run);
}

/**
 * Knows, in each async call, which rows of one table the transactions around it hold. Asking for them on another connection
 * would wait for a transaction that waits for the asker: no database sees such a deadlock.
 */
export class FenceContext {
  /**
   * @param database with the table it says whose rows they are: an application may have several fences over one
   * @param onlyConnection a second transaction on it, of whatever fence, key and holder, would wait for the one around it
   */
  constructor(
    readonly database: object,
    private readonly table: string,
    private readonly onlyConnection?: object,
  ) {}

  /**
   * Runs the work of a transaction that brought claims to the fence; synchronously when the work is synchronous. What only
   * can be awaited, such as the query of a query builder, runs inside.
   */
  run<Result>(held: HeldClaims, work: () => Promise<Result> | Result): Promise<Result> | Result {
    const frame: Frame = { held, context: this, isOver: false };
    const end = () => {
      frame.isOver = true;
    };
    let result: Promise<Result> | Result | undefined;
    try {
      result = storage.run([frame, ...frames()], () => {
        const made = work();
        return isThenable(made) ? Promise.resolve(made) : made;
      });
      return result instanceof Promise ? result.finally(end) : result;
    } finally {
      if (!(result instanceof Promise)) end();
    }
  }

  /** Whether the transactions around this call hold the rows of all `claims`, with the same tokens; they note it. */
  covers(claims: readonly FenceClaim[]): boolean {
    const held = claims.map((claim) => this.#held(claim));
    const isCovered = held.every((each, index) => {
      const claim = claims[index]!;
      return each?.claim.token === claim.token && each.claim.holder === claim.holder;
    });
    if (isCovered) for (const each of held) if (each) each.frame.held.isCovering = true;
    return isCovered;
  }

  /** @throws FencedUsageError when a transaction around this call holds one of the rows, or the connection */
  refuseNested(claims: readonly FenceClaim[]): void {
    const claim = claims.find((each) => this.#held(each) !== undefined);
    if (claim) {
      throw new FencedUsageError(
        `The enclosing transaction already holds the fence for key '${claim.key}'; a second transaction would deadlock. Use the enclosing transaction ('tx'). Nothing was written.`,
        [claim.key],
      );
    }
    const { onlyConnection } = this;
    const isBusy = (frame: Frame) => frame.context.onlyConnection === onlyConnection;
    if (onlyConnection === undefined || !frames().some(isBusy)) return;
    throw new FencedUsageError(
      'The enclosing transaction has the only connection; a second one would wait for it indefinitely. Bring this token to the enclosing one, fence.advance(tx, token), or begin outside its work. Nothing was written.',
      claims.map(({ key }) => key),
    );
  }

  /** The innermost claim of the same row. */
  #held({ key }: FenceClaim): { claim: FenceClaim; frame: Frame } | undefined {
    for (const frame of frames()) {
      if (frame.context.database !== this.database || frame.context.table !== this.table) continue;
      const claim = frame.held.claims.find((each) => each.key === key);
      if (claim) return { claim, frame };
    }
    return undefined;
  }
}
