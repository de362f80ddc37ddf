import { PGlite } from '@electric-sql/pglite';
import { describe, expect, it } from '@jest/globals';
import { pgliteFence } from '../../lib/fencing/index.ts';
import { fenceConformance } from '../../lib/testing/fencing.ts';
import { ACCOUNT_DDL, fencedAccounts, UPSERT } from './support/account-stores.ts';

describe('PGlite', () => {
  it('passes the conformance kit with the SQL of PostgreSQL', async () => {
    const database = await PGlite.create();
    await database.exec(ACCOUNT_DDL.postgresql);
    const fence = pgliteFence(database);
    await database.exec(fence.ddl());
    const report = await fenceConformance(
      fencedAccounts(fence, {
        read: async (resource) => {
          const { rows } = await database.query<{ text: string }>(
            'SELECT text FROM account WHERE resource = $1',
            [resource],
          );
          return rows[0]?.text ?? null;
        },
        write: (transaction, resource, text) =>
          transaction.query(UPSERT.postgresql, [resource, text]),
      }),
    );
    expect(report.cases.filter((each) => each.failure !== undefined)).toEqual([]);
    await database.close();
  }, 120_000);
});
