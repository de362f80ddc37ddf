import { once } from 'node:events';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { FencingToken } from '../../../lib/core/fencing-token.ts';
import type { Fence, FenceEvent, SqlFenceOptions } from '../../../lib/fencing/index.ts';

/** The `advance` of SQLite throws at once. */
const swallowed = async (advance: () => Promise<void>): Promise<void> => {
  try {
    await advance();
  } catch {
    // Work may do this, though it must not.
  }
};

let count = 0;

/** Tests of what the transactions of a fence owe on every database. */
export function itKeepsTransactionPromises(
  name: string,
  make: (options: SqlFenceOptions) => Fence,
): void {
  describe(`on ${name}`, () => {
    let fence: Fence;
    /** Fence over the same database, such as one that a service makes beside the module's. */
    let second: Fence;
    let events: FenceEvent[];
    let secondEvents: FenceEvent[];
    let compensated: unknown[];
    let keys: readonly string[];
    let others: readonly string[];

    beforeEach(() => {
      keys = [`${name}:${(count += 1)}`];
      others = [`${keys[0]}:other`];
      [events, secondEvents, compensated] = [[], [], []];
      fence = make({
        onEvent: (event) => void events.push(event),
        onStale: async (error, { operation, token }) => {
          // The transaction is over: its key is free.
          await second.claim(new FencingToken(99, keys, 'meanwhile'));
          compensated.push([error.key, error.token, operation, token.keys]);
        },
      });
      second = make({ onEvent: (event) => void secondEvents.push(event) });
    });
    const token = (value: number, of = keys): FencingToken =>
      new FencingToken(value, of, `holder-${value}`);
    const stale = (by: object) => expect.objectContaining({ code: 'STALE_TOKEN', ...by });

    it('refuses a stale holder before its work runs, and says who is newer', async () => {
      await second.claim(new FencingToken(34, keys, 'new'));
      let ran = false;
      const late = second.transaction(token(33), () => void (ran = true));
      const facts = { key: keys[0], token: '33', currentToken: '34', currentHolder: 'new' };
      await expect(late).rejects.toEqual(stale({ name: 'StaleTokenError', ...facts }));
      expect(ran).toBe(false);
    });

    it('forgets its token when the work throws, and throws the same error', async () => {
      const own = new Error('no');
      const failing = fence.transaction(token(2), async () => {
        throw own;
      });
      await expect(failing).rejects.toBe(own);
      await expect(fence.transaction(token(1), () => 'first')).resolves.toBe('first');
    });

    it('advances all keys or none', async () => {
      const [a, b, c] = ['a', 'b', 'c'].map((each) => `${keys[0]}:${each}`) as [
        string,
        string,
        string,
      ];
      await second.claim(token(9, [c]));
      const late = second.transaction(token(5, [b, a, c]), () => undefined);
      await expect(late).rejects.toEqual(stale({ key: c, currentToken: '9' }));
      await second.transaction(token(1, [a]), () => undefined);
    });

    it('names the migration when the table is missing', async () => {
      const lacking = make({ table: 'no_such_fence' });
      const missing = expect.objectContaining({
        code: 'FENCED_USAGE',
        message: expect.stringContaining('CREATE TABLE IF NOT EXISTS no_such_fence'),
      });
      await expect(lacking.transaction(token(1), () => undefined)).rejects.toEqual(missing);
      await expect(lacking.claim(token(1))).rejects.toEqual(missing);
    });

    it('is not confused by keys and holders that look like SQL or like its own refusal', async () => {
      const strange = [
        `a"]','b`,
        'redlock:stale:["x","9","y"]',
        "'; DROP TABLE seat; --",
        'сиденье 🎟',
        'trailing ',
        '%"?\\',
      ];
      for (const each of strange.map((text) => keys[0] + text)) {
        await second.claim(new FencingToken(2, [each], `h"]'\\`));
        const facts = { key: each, currentToken: '2', currentHolder: `h"]'\\` };
        await expect(second.claim(token(1, [each]))).rejects.toEqual(stale(facts));
      }
      await second.claim(token(1, [`${keys[0]}trailing`]));
    });

    it('reports a refusal, and survives a compensation that fails', async () => {
      const broken = make({
        onEvent: (event) => void events.push(event),
        onStale: () => Promise.reject(new Error('refund failed')),
      });
      await broken.transaction(token(2), () => undefined);
      await expect(broken.claim(token(1))).rejects.toEqual(stale({ currentToken: '2' }));
      expect(events).toMatchObject([
        { type: 'admitted', operation: 'transaction', token: '2', keys },
        { type: 'stale', operation: 'claim', token: '1', error: { currentToken: '2' } },
        { type: 'compensation-failed', error: { message: 'refund failed' } },
      ]);
    });

    it('rolls back when the work swallows a refusal, and compensates once for what was refused, after the rollback', async () => {
      await second.claim(token(9, others));
      const swallowing = fence.transaction(token(5), async (tx) => {
        await swallowed(() => fence.advance(tx, token(7, others)));
      });
      await expect(swallowing).rejects.toEqual(stale({ token: '7', currentToken: '9' }));
      expect(compensated).toEqual([[others[0], '7', 'transaction', others]]);
      expect(events).toMatchObject([{ type: 'stale', keys: others, token: '7' }]);
    });

    it('rolls back for a refusal by a second fence that the work swallows, and both report it', async () => {
      await second.claim(token(9, others));
      secondEvents.length = 0;
      const swallowing = fence.transaction(token(5), async (tx) => {
        await swallowed(() => second.advance(tx, token(7, others)));
      });
      await expect(swallowing).rejects.toEqual(stale({ key: others[0] }));
      const refused = { type: 'stale', keys: others, token: '7' };
      expect([events, secondEvents[0]]).toMatchObject([[refused], refused]);
      // Work of a later user of the connection has nothing to do with it.
      await fence.transaction(token(99, [...others]), () => undefined);
    });

    it('reports a refusal that another error of the work hides', async () => {
      await second.claim(token(9, others));
      const hiding = fence.transaction(token(5), async (tx) => {
        await swallowed(() => fence.advance(tx, token(7, others)));
        throw new Error('own');
      });
      await expect(hiding).rejects.toThrow('own');
      expect(events).toMatchObject([{ type: 'stale', error: { currentToken: '9' } }]);
    });

    it('forgets a refusal with the attempt that the database aborted', async () => {
      await second.claim(token(9, others));
      let runs = 0;
      const repeated = fence.transaction(token(5), async (tx) => {
        if ((runs += 1) > 1) return 'done';
        await swallowed(() => fence.advance(tx, token(7, others)));
        throw Object.assign(new Error('aborted'), { code: '40001', severity: 'ERROR' });
      });
      await expect(repeated).resolves.toBe('done');
      expect(events.map(({ type }) => type)).toEqual(['retried', 'admitted']);
    });

    it('admits a claim of its token inside, also by a second fence, without another event', async () => {
      const claiming = fence.transaction(token(1), async () => {
        await fence.claim(token(1));
        await second.claim(token(1));
        return 'done';
      });
      await expect(claiming).resolves.toBe('done');
      expect([events, secondEvents]).toMatchObject([[{ operation: 'transaction' }], []]);
    });

    it('keeps what was claimed inside when it rolls back, before the caller or the next attempt learns of it', async () => {
      const late: Promise<unknown>[] = [];
      const older = () => second.claim(token(4)).catch((error) => error.code);
      fence.observe(({ type }) => void (type === 'retried' && late.push(older())));
      let runs = 0;
      const rolledBack = fence.transaction(token(5), async () => {
        await fence.claim(token(5));
        const aborted = { code: '40001', severity: 'ERROR' };
        throw Object.assign(new Error('own'), (runs += 1) === 1 && aborted);
      });
      await expect(rolledBack).rejects.toThrow('own');
      await expect(Promise.all([...late, older()])).resolves.toEqual([
        'STALE_TOKEN',
        'STALE_TOKEN',
      ]);
      await expect(fence.transaction(token(5), () => 'again')).resolves.toBe('again');
    });

    it('refuses inside what would wait for it indefinitely: a transaction, and a claim of another holder', async () => {
      const newer = new FencingToken(2, keys, 'newer');
      const refusal = { code: 'FENCED_USAGE', keys };
      await fence.transaction(token(1), async () => {
        for (const each of [fence, second]) {
          const nested = each.transaction(token(1), () => 'ran');
          await expect(nested).rejects.toMatchObject(refusal);
          await expect(each.claim(newer)).rejects.toMatchObject(refusal);
        }
      });
      await fence.claim(newer);
    });

    it('claims again when the transaction has ended', async () => {
      let later: Promise<void> | undefined;
      const ended = new AbortController();
      await fence.transaction(token(1), async () => {
        later = once(ended.signal, 'abort').then(() => second.claim(token(1)));
      });
      await second.claim(token(2));
      ended.abort();
      await expect(later).rejects.toEqual(stale({ currentToken: '2' }));
    });
  });
}
