import { pgTable, text } from 'drizzle-orm/pg-core';

/** What the users' own schema has; drizzle-kit reads this file. */
export const account = pgTable('account', {
  resource: text().primaryKey(),
  text: text().notNull(),
});
