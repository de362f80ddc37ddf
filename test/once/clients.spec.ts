import 'reflect-metadata';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { OnceService, onceDdl } from '../../lib/once/index.ts';
import { CLIENTS, pglite, type DatabaseName } from '../fencing/support/clients.ts';
import { closeAll, startModule } from '../nest/support/applications.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';

const ANSWER = { text: '5 € \u{1f4b6} \ud800 \0 \'"\\', list: [1, null, true] };

describe('work is done once over', () => {
  const postgres = usePostgres(async () => undefined);
  const mariadb = useMariadb(async () => undefined);
  const folder = mkdtempSync(join(tmpdir(), 'once-clients-'));
  afterEach(closeAll);
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await pglite.close();
  });

  const urls: Readonly<Record<DatabaseName, (name: string) => string>> = {
    PostgreSQL: () => postgres.url,
    PGlite: () => '',
    MariaDB: () => mariadb.url,
    SQLite: (name) => join(folder, `${name.replace(':', '-')}.db`),
  };
  const clients = Object.entries(CLIENTS).flatMap(([on, drivers]) =>
    Object.entries(drivers).map(([name, open]) => [name, on as DatabaseName, open] as const),
  );

  it.each(clients)('%s on %s, is answered alike, and forgotten', async (name, on, open) => {
    const { fence, run, execute, close } = await open(urls[on](name));
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
});
