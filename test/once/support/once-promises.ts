import { afterEach, describe, expect, it } from '@jest/globals';
import { OnceService, onceDdl } from '../../../lib/once/index.ts';
import type { FencedClient } from '../../fencing/support/clients.ts';
import { closeAll, startModule } from '../../nest/support/applications.ts';

const ANSWER = { text: '5 € \u{1f4b6} \ud800 \0 \'"\\', list: [1, null, true] };

/** Tests: a call is done once where its answer is kept through this driver or ORM. */
export function itIsDoneOnce(name: string, open: () => FencedClient | Promise<FencedClient>): void {
  describe(`work that is done once over ${name}`, () => {
    afterEach(closeAll);

    async function start(client: FencedClient) {
      // A transaction is where every client runs a statement.
      const say = (sql: string) => client.run(async (tx) => client.execute(tx, sql));
      for (const sql of [client.fence.ddl(), onceDdl(client.fence)]) await say(sql);
      const module = await startModule({ providers: [OnceService] }, { fence: client.fence });
      return { once: module.get(OnceService), say };
    }

    it('is answered alike, and forgotten', async () => {
      const client = await open();
      try {
        const { once, say } = await start(client);
        const forgetAll = async () => {
          await say('UPDATE redlock_once SET until = 1');
          return once.prune();
        };
        // The clients of a server share the table.
        await forgetAll();
        let runs = 0;
        const call = () =>
          once.run({
            key: `${name} € \u{1f4b6}`,
            payload: name,
            before: () => 'before',
            work: (_tx, before) => ({ ...ANSWER, before, runs: (runs += 1) }),
          });
        const answer = { ...ANSWER, before: 'before', runs: 1 };
        expect([await call(), await call()]).toEqual([answer, answer]);
        await say('UPDATE redlock_once SET until = 1');
        expect(await call()).toEqual({ ...answer, runs: 2 });
        expect(await forgetAll()).toBe(1);
      } finally {
        await client.close();
      }
    });

    it('has no answer where it rolled back by itself', async () => {
      const client = await open();
      try {
        const { once } = await start(client);
        const call = (work: (tx: unknown) => unknown) =>
          once.run({ key: `${name} rolls back`, payload: name, work });
        const rolledBack = call(async (tx) => {
          await client.execute(tx, 'ROLLBACK');
          return 'no effect';
        });
        // On SQLite an ORM may say instead that it can't roll back what has been rolled back.
        await expect(rolledBack).rejects.toMatchObject({
          code: expect.stringMatching(/^(FENCED_USAGE|SQLITE_ERROR)$/),
        });
        expect(await call(() => 'effect')).toBe('effect');
      } finally {
        await client.close();
      }
    });
  });
}
