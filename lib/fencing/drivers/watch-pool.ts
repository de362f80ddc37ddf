import { quoteKeys } from '../../core/errors.ts';
import { claimsAround } from '../fence-context.ts';

/** The part of a pool of `pg` that tells who waits. */
interface CountedPool {
  readonly waitingCount?: number;
  readonly idleCount?: number;
  readonly totalCount?: number;
  readonly options?: { readonly max?: number };
  connect(...callback: any[]): any;
  on?(event: 'acquire', listener: () => void): unknown;
}

const watched = new WeakSet<object>();
/** Several fences may be made over one pool. */
const isNew = (pool: object): boolean => !watched.has(pool) && Boolean(watched.add(pool));
const warned = new Set<string>();

/** Warns once per process when the work of a fence transaction over the pool does `what` with it. */
function warnInside(pool: object, what: string): void {
  const claims = claimsAround(pool);
  if (claims === undefined || warned.has(what)) return;
  warned.add(what);
  const keys = quoteKeys(claims.map(({ key }) => key));
  process.emitWarning(what.replace('$', `fence.transaction for ${keys}`), 'FenceWarning');
}

/** Has the pool of mysql2 tell when the work of a fence transaction waits for another connection. */
export function watchQueue(pool: { on?(event: 'enqueue', listener: () => void): unknown }): void {
  if (isNew(pool)) pool.on?.('enqueue', () => warnOfWait(pool));
}

/** Warns when the work of a fence transaction, which has a connection of the pool, waits for a second one. */
export function warnOfWait(pool: object): void {
  warnInside(
    pool,
    'A call inside $ waits for a second connection of the pool, and all are in use. With as many such calls at once as the pool has connections, none goes on, and their locks are renewed all the while. Use tx, and lock keys that belong together in one call.',
  );
}

/**
 * Warns when the work of a fence transaction waits for another connection of the pool; and, never in production, when it takes one: a
 * write on it is not fenced.
 */
export function watchPool(pool: CountedPool): void {
  if (!isNew(pool)) return;
  const connect = pool.connect.bind(pool);
  // A pool of pg has no event for this, and its `query` connects by it, too.
  pool.connect = (...callback: any[]): unknown => {
    const client: unknown = connect(...callback);
    if (isUsedUp(pool)) warnOfWait(pool);
    return client;
  };
  if (process.env['NODE_ENV'] === 'production') return;
  const beside = 'A query was sent to the pool while $ was open: this query is not fenced. Use tx.';
  pool.on?.('acquire', () => warnInside(pool, beside));
}

/** Whether somebody waits for a connection that others have. */
export function isUsedUp(pool: CountedPool): boolean {
  const { waitingCount = 0, idleCount = 0, totalCount = 0, options } = pool;
  return waitingCount > idleCount && totalCount >= Number(options?.max);
}
