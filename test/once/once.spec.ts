import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { HttpException, Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { LockService } from '../../lib/index.ts';
import { Once, OnceService, OnceTransaction, onceTransaction } from '../../lib/once/index.ts';
import { createMemoryNodes, occupy, type MemoryLockNode } from '../../lib/testing/index.ts';
import { closeAll, startModule } from '../nest/support/applications.ts';
import { Gate } from '../nest/support/critical-section.ts';
import { effectsOf, KINDS, writeEffect, type OnceDatabase } from './support/databases.ts';
import { useOnceDatabase } from './support/use-once-database.ts';

afterEach(closeAll);

interface Order {
  readonly id: string;
  readonly cents: number;
}

const newOrder = (): Order => ({ id: randomUUID(), cents: 500 });

/** What JSON has, and what encodings lose. */
const PAID = { text: 'bezahlt: 5 € \u{1f4b6} \0 \ud800 \\"', list: [1, 2.5, null, true, {}, []] };

/** A process, as far as locks can tell. */
async function start(database: OnceDatabase, nodes: MemoryLockNode[] = createMemoryNodes(3)) {
  let runs = 0;
  /** What the method does in its transaction, behind its effect. */
  let work: (count: number, tx: unknown) => unknown = () => undefined;

  @Injectable()
  class Payments {
    @Once('pay:{0.id}', { wait: 0 })
    async pay(order: Order, @OnceTransaction() tx: any = onceTransaction()): Promise<any> {
      return this.book(order, tx);
    }

    @Once('pay:{0.id}', { wait: '1h' })
    async payAfter(order: Order, @OnceTransaction() tx: any = onceTransaction()): Promise<any> {
      return this.book(order, tx);
    }

    @Once('pay:{0.id}', { wait: 0, keepErrors: true })
    async payOrDecline(order: Order, @OnceTransaction() tx: any = onceTransaction()) {
      return this.book(order, tx);
    }

    @Once((order: Order) => `pay:${order.id}`, { payload: (order: Order) => order.cents })
    async payCents(order: Order & { at: unknown }, @OnceTransaction() tx: any = onceTransaction()) {
      return this.book(order, tx);
    }

    private async book({ id }: Order, tx: unknown) {
      runs += 1;
      const effect = randomUUID();
      await writeEffect(database, `pay:${id}`, effect, tx);
      return (await work(runs, tx)) ?? { ...PAID, effect };
    }
  }
  const module = await startModule(
    { providers: [Payments, OnceService] },
    { nodes, fence: database.fence },
  );
  return {
    payments: module.get(Payments),
    once: module.get(OnceService),
    locks: module.get(LockService),
    nodes,
    runs: () => runs,
    use: (next: typeof work) => void (work = next),
  };
}

async function expectConflict(call: Promise<unknown>): Promise<void> {
  await expect(call).rejects.toMatchObject({
    code: 'ONCE_CONFLICT',
    message: expect.stringMatching(/^Payments\.pay\w*: The key "pay:/),
  });
}

/** A method that stays in its transaction until the gate is open. */
function stayInside({ use }: Pick<Awaited<ReturnType<typeof start>>, 'use'>) {
  const [entered, end] = [new Gate(), new Gate()];
  use(async () => {
    entered.open();
    await end.opened;
  });
  return { entered, end };
}

describe.each(KINDS)('work that is done once, in %s', (kind) => {
  const database = useOnceDatabase(kind);
  const effectsFor = ({ id }: Order) => effectsOf(database, `pay:${id}`);

  it('gives later calls the answer of the first one, byte for byte, and does not run again', async () => {
    const { payments, runs } = await start(database);
    const order = newOrder();
    const first = await payments.pay(order);
    expect(first).toEqual({ ...PAID, effect: expect.any(String) });
    const again = await start(database);
    for (const later of [payments, again.payments])
      expect(JSON.stringify(await later.pay({ ...order }))).toBe(JSON.stringify(first));
    expect(runs() + again.runs()).toBe(1);
    expect(await effectsFor(order)).toEqual([first.effect]);
  });

  it('gives a later call nothing where the first one returned nothing', async () => {
    const { once } = await start(database);
    let count = 0;
    const work = () => void (count += 1);
    const key = randomUUID();
    expect(await once.run({ key, payload: null, work })).toBeUndefined();
    expect(await once.run({ key, payload: null, work })).toBeUndefined();
    expect(count).toBe(1);
  });

  it('answers a later call although the lock is not to be had', async () => {
    const { payments, nodes } = await start(database);
    const order = newOrder();
    const first = await payments.pay(order);
    await using _other = await occupy(nodes, `pay:${order.id}`);
    expect(await payments.pay(order)).toEqual(first);
  });

  it('refuses another payload for a key, also where it has waited for the first run', async () => {
    const one = await start(database);
    const order = newOrder();
    const { entered, end } = stayInside(one);
    const first = one.payments.pay(order);
    await entered.opened;
    const other = { ...order, cents: 1 };
    const waiting = expectConflict(one.payments.payAfter(other));
    end.open();
    await Promise.all([first, waiting]);
    await expectConflict(one.payments.pay(other));
    expect(one.runs()).toBe(1);
  });

  it('refuses a key that the fence can not have, and runs nothing', async () => {
    const { payments, runs } = await start(database);
    const order = { ...newOrder(), id: 'a\0b' };
    await expect(payments.pay(order)).rejects.toThrow('without NUL');
    expect(runs()).toBe(0);
  });

  it('is busy while the first run is in progress, or waits for its answer', async () => {
    const { payments, runs, ...rest } = await start(database);
    const order = newOrder();
    const { entered, end } = stayInside(rest);
    const first = payments.pay(order);
    await entered.opened;
    const waiting = payments.payAfter(order);
    // A connection of SQLite has one transaction at a time: there, every call waits.
    const busy = kind === 'SQLite' ? [] : [payments.pay(order)];
    for (const each of busy) await expect(each).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    end.open();
    expect(await waiting).toEqual(await first);
    expect(runs()).toBe(1);
  });

  it('keeps nothing of a run that fails, and runs again', async () => {
    const { payments, use, runs } = await start(database);
    const order = newOrder();
    use((count) => (count === 1 ? Promise.reject(new HttpException('no funds', 402)) : undefined));
    await expect(payments.pay(order)).rejects.toThrow('no funds');
    expect(await effectsFor(order)).toEqual([]);
    await payments.pay(order);
    expect(runs()).toBe(2);
    expect(await effectsFor(order)).toHaveLength(1);
  });

  it('keeps with keepErrors what is an answer, and no error that may pass', async () => {
    const { payments, use, runs } = await start(database);
    const order = newOrder();
    const declined = new HttpException({ reason: 'declined', tries: 3 }, 402);
    const errors = [new Error('no connection'), new HttpException('away', 503), declined];
    use((count) => Promise.reject(errors[count - 1]!));
    for (const error of errors) await expect(payments.payOrDecline(order)).rejects.toBe(error);
    const later = await payments.payOrDecline(order).catch((error: unknown) => error);
    expect(later).toBeInstanceOf(HttpException);
    expect(later).toMatchObject({ response: declined.getResponse(), status: 402 });
    expect(runs()).toBe(3);
    expect(await effectsFor(order)).toEqual([]);
  });

  it('refuses a result that JSON would change, before the commit', async () => {
    const { payments, use } = await start(database);
    const order = newOrder();
    use(() => ({ paid: [{ at: new Date(0) }] }));
    await expect(payments.pay(order)).rejects.toThrow(
      'Payments.pay: The result.paid[0].at is an object of the class Date',
    );
    expect(await effectsFor(order)).toEqual([]);
  });

  it.each(['ROLLBACK', 'COMMIT'])(
    'keeps no answer of work that ended the transaction itself, by %s',
    async (end) => {
      const { payments, use, runs } = await start(database);
      const order = newOrder();
      use(async (_count, tx) => void (await database.run(end, tx)));
      await expect(payments.pay(order)).rejects.toThrow(
        /^Payments\.pay: The transaction had ended before its commit/,
      );
      use(() => undefined);
      await payments.pay(order);
      expect(runs()).toBe(2);
    },
  );

  it('compares what the option payload gives, and says what has nothing to compare', async () => {
    const { payments, runs } = await start(database);
    const order = newOrder();
    const first = await payments.payCents({ ...order, at: new Map() });
    expect(await payments.payCents({ ...order, at: () => 2 })).toEqual(first);
    await expectConflict(payments.payCents({ ...order, cents: 1, at: 0 }));
    await expect(payments.pay({ ...order, at: new Map() } as never)).rejects.toThrow(
      'Payments.pay: The payload[0].at is an object of the class Map without properties',
    );
    expect(runs()).toBe(1);
  });

  it.each(['claim', 'transaction'] as const)(
    'writes nothing of a first run that was frozen before its %s, which gets the answer of the newer one',
    async (place) => {
      const frozen = await start(database);
      const newer = await start(database, frozen.nodes);
      const order = newOrder();
      const [began, goOn] = [new Gate(), new Gate()];
      const run = ({ once }: typeof frozen, before: () => unknown = () => undefined) =>
        once.run({
          key: `pay:${order.id}`,
          payload: order,
          before,
          work: async (tx) => {
            const effect = randomUUID();
            await writeEffect(database, `pay:${order.id}`, effect, tx);
            return effect;
          },
        });
      /** Its lock expires meanwhile, and it finds out. */
      const freeze = async () => {
        began.open();
        await goOn.opened;
        await frozen.locks
          .current()!
          .extend()
          .catch(() => undefined);
      };
      const claiming = jest.spyOn(database.fence, 'claim');
      if (place === 'claim')
        claiming.mockImplementationOnce(async (token) => {
          claiming.mockRestore();
          await freeze();
          await database.fence.claim(token);
        });
      const late = run(frozen, place === 'transaction' ? freeze : undefined);
      await began.opened;
      await (await occupy(frozen.nodes, `pay:${order.id}`, { takeOver: true })).release();
      const answer = await run(newer);
      goOn.open();
      expect(await late).toBe(answer);
      expect(await effectsFor(order)).toEqual([answer]);
      claiming.mockRestore();
    },
  );

  it('runs nothing beside a first run that was frozen in its transaction, and that commits', async () => {
    const frozen = await start(database);
    const newer = await start(database, frozen.nodes);
    const order = newOrder();
    const { entered, end } = stayInside(frozen);
    const first = frozen.payments.pay(order);
    await entered.opened;
    await (await occupy(frozen.nodes, `pay:${order.id}`, { takeOver: true })).release();
    const second = newer.payments.payAfter(order);
    // On SQLite it waits for the connection before it asks for the lock.
    while (kind !== 'SQLite' && newer.locks.held().held.length === 0) await nextTurn();
    end.open();
    expect(await second).toEqual(await first);
    expect(newer.runs()).toBe(0);
    expect(await effectsFor(order)).toHaveLength(1);
  });

  it('runs again in a new transaction when the database aborts the first one, and keeps the last answer', async () => {
    const { payments, use, runs } = await start(database);
    const order = newOrder();
    const aborted = Object.assign(new Error('aborted'), { code: '40001', severity: 'ERROR' });
    use((count) => (count < 3 ? Promise.reject(aborted) : { count }));
    expect(await payments.pay(order)).toEqual({ count: 3 });
    expect(await payments.pay(order)).toEqual({ count: 3 });
    expect(runs()).toBe(3);
    expect(await effectsFor(order)).toHaveLength(1);
  });

  it('runs again when the answer was kept for long enough by the clock of the database, and prunes such answers only', async () => {
    const { payments, once } = await start(database);
    const [old, fresh] = [newOrder(), newOrder()];
    const end = () =>
      database.run(`UPDATE redlock_once SET until = 1 WHERE resource = 'pay:${old.id}'`);
    const kept = await payments.pay(fresh);
    const first = await payments.pay(old);
    await end();
    const second = await payments.pay(old);
    expect(second).not.toEqual(first);
    expect(await payments.pay(old)).toEqual(second);
    expect(await effectsFor(old)).toHaveLength(2);
    await end();
    expect(await once.prune()).toBe(1);
    expect(await payments.pay(fresh)).toEqual(kept);
    const rows = await database.run(`SELECT 1 FROM redlock_once WHERE resource = 'pay:${old.id}'`);
    expect(rows).toEqual([]);
  });

  it('does what is slow under a lock that has claimed, before the transaction, and only where there is no answer', async () => {
    const { once } = await start(database);
    const key = randomUUID();
    const charges: string[] = [];
    const run = () =>
      once.run({
        key,
        payload: 'order',
        before: async (lock) => {
          const older = { value: 1, keys: [key], holder: 'older' };
          await expect(database.fence.claim(older)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
          charges.push(lock.keys.join());
          return `charge ${charges.length}`;
        },
        work: (_tx, charge) => `paid by ${charge}`,
      });
    expect(await run()).toBe('paid by charge 1');
    expect(await run()).toBe('paid by charge 1');
    expect(charges).toEqual([key]);
  });

  it('says how to make the table where there is none', async () => {
    const { payments } = await start(database);
    await database.run('ALTER TABLE redlock_once RENAME TO redlock_hidden');
    try {
      await expect(payments.pay(newOrder())).rejects.toThrow(
        /'redlock_once' does not exist.+\nCREATE TABLE IF NOT EXISTS redlock_once/,
      );
    } finally {
      await database.run('ALTER TABLE redlock_hidden RENAME TO redlock_once');
    }
  });
});
