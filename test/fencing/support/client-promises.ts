import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { FencingToken } from '../../../lib/core/fencing-token.ts';
import type { IsolationLevel } from '../../../lib/fencing/index.ts';
import type { FencedClient, OpenClient } from './clients.ts';

const DAY = 86_400_000;

const LEVELS: readonly IsolationLevel[] = ['read committed', 'repeatable read', 'serializable'];

/** Differences between databases and clients. */
export interface ClientFacts {
  readonly url: () => string;
  /** Lists of statements that end the transaction in which they are sent, and free the row of the fence. */
  readonly endings: readonly (readonly string[])[];
  readonly levels?: readonly IsolationLevel[];
  /** Whether the fence has a `maxAge`. */
  readonly isAged?: boolean;
  /** Changes a row. */
  readonly write: string;
}

/** Tests of what each driver and ORM owes. That it fences at all, the conformance kit shows. */
export function itKeepsItsPromises(name: string, open: OpenClient, facts: ClientFacts): void {
  const { url, endings, write, levels = LEVELS, isAged = true } = facts;
  describe(`${name}:`, () => {
    let client: FencedClient;
    beforeAll(async () => void (client = await open(url(), isAged ? { maxAge: '30d' } : {})));
    afterAll(async () => void (await client?.close()));
    const now = Date.now() * 1_000;
    const token = (value: number, key: string): FencingToken =>
      new FencingToken(now + value, [`${name}:${key}`], `h${value}`);

    it('advances in a transaction of the user, and refuses to outside and when it is over', async () => {
      // The `advance` of SQLite throws at once.
      const advance = async (transaction: unknown) =>
        client.fence.advance(transaction, token(1, 'own'));
      let finished: unknown;
      await client.run((transaction) => {
        finished = transaction;
        return advance(transaction);
      });
      await expect(advance(finished)).rejects.toBeDefined();
      for (const outside of [...client.outside, undefined, null, {}, () => undefined])
        await expect(advance(outside)).rejects.toMatchObject({
          code: 'FENCED_USAGE',
          message: expect.stringContaining('outside a transaction'),
        });
    });

    it('refuses a stale token at every level', async () => {
      await client.fence.claim(token(9, 'level'));
      for (const isolationLevel of [undefined, ...levels]) {
        const options = isolationLevel && { isolationLevel };
        const run = (value: number) =>
          client.fence.transaction(token(value, 'level'), () => 'done', options);
        await expect(run(9)).resolves.toBe('done');
        await expect(run(8)).rejects.toMatchObject({
          code: 'STALE_TOKEN',
          currentToken: String(now + 9),
        });
      }
    });

    it('reports no success when the work ends its transaction, or swallows what does', async () => {
      // Some are not what they were afterwards.
      const ending = await open(url());
      for (const statements of endings) {
        const ended = ending.fence.transaction(token(1, 'ended'), async (tx) => {
          for (const statement of statements)
            await Promise.resolve(ending.execute(tx, statement)).catch(() => undefined);
        });
        const code = await ended.then(
          () => 'success',
          (error) => error.code,
        );
        // Knex says instead that it can't roll back what SQLite has rolled back.
        expect([statements, code]).toEqual([
          statements,
          expect.stringMatching(name.startsWith('Knex') ? /FENCED|SQLITE_ERROR/ : /FENCED/),
        ]);
        await ending.fence.transaction(token(1, 'ended'), (tx) => ending.execute(tx, write));
      }
      await ending.close();
    });

    if (!isAged) return;
    it('prunes, tells how many rows it deleted, and admits none of their tokens', async () => {
      const keys = Array.from({ length: 130 }, (_none, index) => `${name}:${index}`);
      const days = (count: number) => (Date.now() - count * DAY) * 1_000;
      const { fence } = client;
      const rows = keys.map((key) => `('${key}', ${days(40)}, 'old')`).join();
      const young = { value: days(20), keys: [`${name}:young`], holder: 'young' };
      await fence.transaction(young, (tx) =>
        client.execute(tx, `INSERT INTO redlock_fence (resource, token, holder) VALUES ${rows}`),
      );
      const counts = [await fence.prune(), await fence.prune()];
      const late = { value: days(31), keys: [keys[0]!], holder: 'late' };
      const refusal = { code: 'STALE_TOKEN', currentHolder: '' };
      await expect(fence.claim(late)).rejects.toMatchObject(refusal);
      await expect(fence.transaction(late, () => 'ran')).rejects.toMatchObject(refusal);
      expect(counts).toEqual([130, 0]);
      expect(await fence.check()).toEqual([]);
    });
  });
}
