import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import Database from 'better-sqlite3';
import { sqliteFence } from '../../lib/fencing/index.ts';
import { ACCOUNT_DDL, plainSqlite } from '../../test/fencing/support/accounts.ts';
import { itKeepsItsPromises } from '../../test/fencing/support/client-promises.ts';
import { sqliteClient, sqliteOrms } from '../../test/fencing/support/clients.ts';
import type { OpenSqlite } from '../../test/fencing/support/sqlite-drivers.ts';
import { itKeepsSqlitePromises } from '../../test/fencing/support/sqlite-promises.ts';
import { itKeepsTransactionPromises } from '../../test/fencing/support/transaction-promises.ts';
import { installSqlite } from '../../test/support/databases/install-sqlite.ts';
import { itFences, itKeepsTables } from './support/fenced-client.ts';

// These are the promises that `npm test` shows with the libsql package, which has the same interface and needs no compiler.

let folder: string;
let database: OpenSqlite;
const file = (): string => join(folder, 'test.db');
beforeAll(async () => {
  await installSqlite();
  folder = mkdtempSync(join(tmpdir(), 'better-sqlite3-'));
  database = new Database(file(), { timeout: 0 });
  database.exec(`${ACCOUNT_DDL.sqlite}; ${sqliteFence(database).ddl()}`);
}, 600_000);
afterAll(() => {
  database.close();
  rmSync(folder, { recursive: true });
});

itKeepsSqlitePromises('better-sqlite3', Database);
itKeepsTransactionPromises('SQLite', (options) => sqliteFence(database, options));

const facts = { url: file, levels: [] };
itFences('better-sqlite3', sqliteClient(Database), 'sqlite', () => plainSqlite(database), facts);
for (const [name, open] of Object.entries(sqliteOrms(Database))) {
  itKeepsItsPromises(name, open, {
    ...facts,
    endings: [['COMMIT']],
    write: "UPDATE account SET text = 'x'",
  });
  itKeepsTables(name, () => open(file()));
}
