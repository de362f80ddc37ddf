import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { FencingToken, type Fence, type IsolationLevel } from '../../../lib/fencing/index.ts';
import { fencedAccounts, itConforms, type Accounts } from '../../fencing/support/account-stores.ts';

/** Loads a package of this folder. */
export const loadPackage: NodeJS.Require = createRequire(
  join(process.cwd(), 'test/stores/package.json'),
);

/** A client with a fence over it. */
export interface FencedClient {
  readonly fence: Fence;
  readonly accounts: Accounts<any>;
  /** What the user may pass to `advance` by mistake: each runs statements outside a transaction. */
  readonly outside: readonly unknown[];
  /** A transaction that the user opens. */
  readonly run: (work: (transaction: any) => Promise<unknown>) => Promise<unknown>;
  /** How work sends SQL of its own. */
  readonly execute: (transaction: any, sql: string) => Promise<unknown>;
  readonly close: () => unknown;
}

/** A time: the fence has a `maxAge`. */
const NOW = Date.now() * 1_000;

const LEVELS: readonly IsolationLevel[] = ['read committed', 'repeatable read', 'serializable'];

/**
 * Tests: the client passes the conformance kit, refuses stale tokens in every kind of transaction, and refuses `advance` outside.
 * @param levels of isolation that the database has
 * @param isAged whether the fence has a `maxAge`
 */
export function itFences(
  name: string,
  open: () => FencedClient | Promise<FencedClient>,
  { levels = LEVELS, isAged = true } = {},
): void {
  itConforms(name, async () => {
    const { fence, accounts, close } = await open();
    const store = fencedAccounts(fence, accounts);
    if (!isAged) for (const hook of ['maxAge', 'prune']) Reflect.deleteProperty(store, hook);
    return { store, close };
  });

  it(`${name}: a stale token is refused and rolled back at every level, in transactions of the user too; advance is refused outside and after them`, async () => {
    const { fence, accounts, outside, run, close } = await open();
    const key = `every level: ${name}`;
    const token = (value: number) => new FencingToken(NOW + value, [key], `holder-${value}`);
    const write = (transaction: unknown) => accounts.write(transaction, key, 'written');
    const stale = { code: 'STALE_TOKEN', currentToken: String(NOW + 9) };
    try {
      let finished: unknown;
      await run((tx) => fence.advance((finished = tx), token(9)));
      await expect(fence.advance(finished, token(10))).rejects.toBeDefined();
      const older = run(async (tx) => {
        await write(tx);
        await fence.advance(tx, token(8));
      });
      await expect(older).rejects.toMatchObject(stale);
      for (const isolationLevel of [undefined, ...levels]) {
        const options = isolationLevel && { isolationLevel };
        const fresh = await fence.transaction(token(9), () => 'done', options);
        expect(fresh).toBe('done');
        const late = fence.transaction(token(8), write, options);
        await expect(late).rejects.toMatchObject(stale);
      }
      const failing = fence.transaction(token(9), async (tx) => {
        await write(tx);
        throw new Error('of the work');
      });
      await expect(failing).rejects.toThrow('of the work');
      expect(await accounts.read(key)).toBeNull();
      for (const each of outside)
        await expect(fence.advance(each, token(10))).rejects.toThrow(/outside a transaction/);
    } finally {
      await close();
    }
  });
}

/** A test: work that ends its transaction by itself does not look like a success. */
export function itNoticesTheEnd(
  name: string,
  open: () => FencedClient | Promise<FencedClient>,
): void {
  it(`${name}: a transaction that its work ended is not reported as a success`, async () => {
    const { fence, execute, close } = await open();
    const token = new FencingToken(NOW, [`ended: ${name}`], 'holder');
    try {
      const ended = fence.transaction(token, (tx) => execute(tx, 'COMMIT'));
      await expect(ended).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      await expect(fence.transaction(token, () => 'done')).resolves.toBe('done');
    } finally {
      await close();
    }
  });
}
