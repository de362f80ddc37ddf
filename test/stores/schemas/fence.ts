import { bigint, pgTable, text } from 'drizzle-orm/pg-core';

/** The table of the fence, as docs/fencing/README.md has it. */
export const redlockFence = pgTable('redlock_fence', {
  resource: text().primaryKey(),
  token: bigint({ mode: 'bigint' }).notNull(),
  holder: text().notNull().default(''),
});
