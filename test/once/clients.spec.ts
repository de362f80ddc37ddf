import 'reflect-metadata';
import { afterEach, describe, expect, it } from '@jest/globals';
import { OnceService, onceDdl } from '../../lib/once/index.ts';
import { EACH_CLIENT, useClients } from '../fencing/support/use-clients.ts';
import { closeAll, startModule } from '../nest/support/applications.ts';

const ANSWER = { text: '5 € \u{1f4b6} \ud800 \0 \'"\\', list: [1, null, true] };

describe('work is done once over', () => {
  const openClient = useClients();
  afterEach(closeAll);

  it.each(EACH_CLIENT)('%s on %s, is answered alike, and forgotten', async (name, on) => {
    const { fence, run, execute, close } = await openClient(name, on);
    try {
      // A transaction is where every client runs a statement.
      for (const sql of [fence.ddl(), onceDdl(fence)])
        await run(async (transaction) => execute(transaction, sql));
      const once = (await startModule({ providers: [OnceService] }, { fence })).get(OnceService);
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
      await run(async (transaction) => execute(transaction, 'UPDATE redlock_once SET until = 1'));
      expect(await call()).toEqual({ ...answer, runs: 2 });
      await run(async (transaction) => execute(transaction, 'UPDATE redlock_once SET until = 1'));
      expect(await once.prune()).toBe(1);
    } finally {
      await close();
    }
  });

  it.each(EACH_CLIENT)(
    '%s on %s, keeps no answer of work that rolled back by itself',
    async (name, on) => {
      const { fence, run, execute, close } = await openClient(name, on);
      try {
        for (const sql of [fence.ddl(), onceDdl(fence)])
          await run(async (transaction) => execute(transaction, sql));
        const once = (await startModule({ providers: [OnceService] }, { fence })).get(OnceService);
        const call = (work: (tx: unknown) => unknown) =>
          once.run({ key: `${name} rolls back`, payload: name, work });
        const rolledBack = call(async (tx) => {
          await execute(tx, 'ROLLBACK');
          return 'no effect';
        });
        // Knex says instead that it can't roll back what SQLite has rolled back.
        await expect(rolledBack).rejects.toMatchObject({
          code: expect.stringMatching(name === 'Knex' ? /FENCED|SQLITE_ERROR/ : /FENCED/),
        });
        expect(await call(() => 'effect')).toBe('effect');
      } finally {
        await close();
      }
    },
  );
});
