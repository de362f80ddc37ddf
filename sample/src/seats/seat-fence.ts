import { postgresFence, type Fence } from 'nestjs-fenced-lock/fencing';
import type { Pool, PoolClient } from 'pg';

/** The fence of the seats: the database remembers the newest token of each key, and refuses holders with an older one. */
export function seatFence(pool: Pool): Fence<PoolClient> {
  return postgresFence(pool, { table: 'seat_sample.fence' });
}
