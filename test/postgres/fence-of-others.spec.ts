import { describe, expect, it } from '@jest/globals';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import { eventually } from '../support/eventually.ts';
import { ballotNow, NodeDriver } from '../support/node-driver.ts';
import { useClosing } from '../support/use-redlocks.ts';

const database = usePostgres((pool) => pool.query(postgresNode(pool).ddl()));
const closing = useClosing();

let seats = 0;
const nextSeat = () => `seat${(seats += 1)}`;
const namesOf = (seat: string) => new NodeNames('lock:', [seat]);

/** Resolves when the request was answered, or waits for a row of somebody else. */
async function answeredOrWaiting(request: Promise<unknown>): Promise<void> {
  let isAnswered = false;
  void request.then(() => (isAnswered = true));
  await eventually(async () => {
    const sql = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    const { rowCount } = await database.pool.query(sql);
    if (!isAnswered && rowCount === 0) throw new Error('neither answered nor waiting');
  });
}

describe('a row of the fence that an open transaction of somebody else makes', () => {
  it('keeps its number, if that is higher, from a grant that waited for it', async () => {
    const seat = nextSeat();
    const driver = await NodeDriver.open(closing(postgresNode(database.pool)));
    await driver.join();
    const ballot = ballotNow();
    const ahead = String(ballot + 60_000_000);
    const other = await database.pool.connect();
    await other.query('BEGIN');
    await other.query("INSERT INTO redlock_fence VALUES ($1, $2, 'elsewhere')", [seat, ahead]);
    const granted = driver.acquire(namesOf(seat), 'holder..1', ballot);
    await answeredOrWaiting(granted);
    await other.query('COMMIT');
    other.release();
    expect((await granted).kind).not.toBe('accepted');
    const sql = 'SELECT token::text FROM redlock_fence WHERE resource = $1';
    expect((await database.pool.query(sql, [seat])).rows).toEqual([{ token: ahead }]);
  });

  it('is no reason to wait, nor to refuse the other keys of a batch', async () => {
    const [seat, another] = [nextSeat(), nextSeat()];
    const driver = await NodeDriver.open(closing(postgresNode(database.pool)), {
      silenceLimitMs: 2_000,
    });
    await driver.join();
    const other = await database.pool.connect();
    await other.query('BEGIN');
    await other.query("INSERT INTO redlock_fence VALUES ($1, 1, 'elsewhere')", [seat]);
    const replies = await Promise.all([
      driver.acquire(namesOf(seat), 'holder..1', ballotNow()),
      driver.acquire(namesOf(another), 'holder..2', ballotNow()),
    ]);
    await other.query('ROLLBACK');
    other.release();
    expect(replies).toMatchObject([{ kind: 'held' }, { kind: 'accepted' }]);
  });
});
