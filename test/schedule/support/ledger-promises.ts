import { expect, it } from '@jest/globals';
import { StaleTokenError } from '../../../lib/fencing/index.ts';
import { cronDdl } from '../../../lib/schedule/index.ts';
import { RunLedger } from '../../../lib/schedule/run-ledger.ts';
import { createFencingToken } from '../../../lib/testing/index.ts';
import type { FencedClient } from '../../fencing/support/clients.ts';

export const at = (text: string) => new Date(`2026-06-01T${text}:00.000Z`);
export const RULES = { isRepeated: true };

/** Tests: the ledger of runs keeps its promises through this driver or ORM. */
export function itKeepsRuns(
  client: string,
  open: () => FencedClient | Promise<FencedClient>,
): void {
  it(`lets a run begin once, and the last holder end it, over ${client}`, async () => {
    const { fence, run: inTransaction, execute, close } = await open();
    try {
      // A transaction is where every client runs a statement.
      for (const sql of [fence.ddl(), cronDdl(fence), cronDdl(fence)])
        await inTransaction(async (transaction) => execute(transaction, sql));
      const ledger = new RunLedger('test', fence);
      const name = `jöb ${client}`;
      const grant = (value: number) => createFencingToken(`cron:${name}`, value);
      const run = { name, scheduled: at('03:00') };
      const [first, second, third] = [grant(1), grant(2), grant(3)];

      expect(await ledger.begin(run, first, RULES)).toEqual({ attempt: 1, previous: undefined });
      expect(await ledger.isSettled(run)).toBe(false);
      // The second has the lock of the job, so the first has lost it.
      expect(await ledger.begin(run, second, RULES)).toEqual({ attempt: 2, previous: undefined });
      const late = ledger.end(run, first, 'done', () => 'written');
      await expect(late).rejects.toThrow(StaleTokenError);
      expect(await ledger.isSettled(run)).toBe(false);
      const failing = ledger.end(run, second, 'done', () => Promise.reject(new Error('no paper')));
      await expect(failing).rejects.toThrow('no paper');
      expect(await ledger.isSettled(run)).toBe(false);
      const ending = ledger.end(run, second, 'done', (tx) => execute(tx, 'ROLLBACK'));
      await expect(ending).rejects.toBeDefined();
      expect(await ledger.isSettled(run)).toBe(false);
      await ledger.end(run, second, 'done', () => undefined);
      expect(await ledger.isSettled(run)).toBe(true);
      const again = ledger.end(run, second, 'done', () => 'written');
      await expect(again).rejects.toThrow(/has ended already \(done\), so nothing was written/);

      expect(await ledger.begin(run, third, RULES)).toBeUndefined();
      const next = { name, scheduled: at('04:00') };
      expect(await ledger.begin(next, third, { ...RULES, isBeforeStart: true })).toEqual({
        attempt: 1,
        previous: at('03:00'),
      });
      const known = { name, started: expect.any(Date) };
      const began = {
        ...known,
        scheduled: at('04:00'),
        attempt: 1,
        token: 3,
        holder: third.holder,
      };
      const ended = {
        ...known,
        scheduled: at('03:00'),
        attempt: 2,
        token: 2,
        holder: second.holder,
      };
      expect(await ledger.list(name, 9)).toEqual([
        { ...began, ended: undefined, outcome: undefined },
        { ...ended, ended: expect.any(Date), outcome: 'done' },
      ]);
      expect(await ledger.list(name.toUpperCase(), 9)).toEqual([]);
      expect(await ledger.first(name)).toEqual(at('03:00'));
    } finally {
      await close();
    }
  });
}
