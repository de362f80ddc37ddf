import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { postgresFence } from '../../lib/fencing/index.ts';
import { LockService } from '../../lib/index.ts';
import { closeAll, startModule } from '../nest/support/applications.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { inPostgres, lockIsAwaited } from './support/hand-written-transactions.ts';

// The fence does not see a transaction that it did not open: the claim waits for the row that this one holds.
describe('a claim inside an own transaction that has advanced the same token', () => {
  const database = usePostgres((pool) => pool.query(postgresFence(pool).ddl()));
  const role = 'impatient';
  let pool: pg.Pool;
  beforeEach(async () => {
    await database.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`).catch(() => undefined);
    await database.pool.query(`CREATE ROLE ${role} LOGIN;
ALTER ROLE ${role} SET lock_timeout = '1s';
GRANT SELECT, INSERT, UPDATE ON redlock_fence TO ${role}`);
    const url = new URL(database.url);
    url.username = role;
    pool = new pg.Pool({ connectionString: url.href });
  });
  afterEach(async () => {
    await closeAll();
    await pool.end();
    await database.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  const ENDED = { code: '55P03' };

  it('waits for that transaction, until the lock_timeout of the role ends it', async () => {
    const fence = postgresFence(pool);
    const token = new FencingToken(1, ['own'], 'me');
    await inPostgres(pool, async (client) => {
      await fence.advance(client, token);
      const claim = fence.claim(token);
      claim.catch(() => undefined);
      await lockIsAwaited(database.pool);
      await expect(claim).rejects.toMatchObject(ENDED);
    });
    await fence.claim(token);
  });

  it('does so where a section with claim: true begins inside', async () => {
    const fence = postgresFence(pool);
    const locks = (await startModule({}, { fence })).get(LockService);
    let runs = 0;
    const options = { claim: true, nested: 'join' } as const;
    const inside = () => locks.withLock('section', () => (runs += 1), options);
    await locks.withLock('section', ({ token }) =>
      inPostgres(pool, async (client) => {
        await fence.advance(client, token);
        await expect(inside()).rejects.toMatchObject(ENDED);
      }),
    );
    expect(runs).toBe(0);
    await locks.withLock('section', async () => {
      await inside();
      await inPostgres(pool, async () => void (await inside()));
    });
    expect(runs).toBe(2);
  });
});
