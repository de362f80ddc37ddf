import type { Pool } from 'pg';
import type { CommittedWrite } from './commit-order.ts';

/**
 * The writes to the table `ledger` in the order in which PostgreSQL committed them, read from its write-ahead log: no clock and no
 * lock of the test takes part.
 */
export class DecodedHistory {
  private constructor(
    private readonly pool: Pool,
    private readonly slot: string,
  ) {}

  /** Begins with what is committed from now on. */
  static async start(pool: Pool, slot: string): Promise<DecodedHistory> {
    await pool.query("SELECT pg_create_logical_replication_slot($1, 'test_decoding')", [slot]);
    return new DecodedHistory(pool, slot);
  }

  /** Takes what was committed since the start or the last call. */
  async take(): Promise<CommittedWrite[]> {
    const { rows } = await this.pool.query<{ data: string }>(
      'SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL)',
      [this.slot],
    );
    return rows.flatMap(({ data }) => {
      if (!data.startsWith('table public.ledger: UPDATE:')) return [];
      const value = (column: string): string => {
        const found = new RegExp(`\\b${column}\\[[a-z]+\\]:'?([^' ]+)`).exec(data)?.[1];
        if (found === undefined) throw new Error(`no ${column} in ${data}`);
        return found;
      };
      return [
        {
          resource: value('resource'),
          writer: value('writer'),
          token: BigInt(value('token')),
          readFrom: value('read_from'),
        },
      ];
    });
  }

  async drop(): Promise<void> {
    await this.pool.query('SELECT pg_drop_replication_slot($1)', [this.slot]);
  }
}
