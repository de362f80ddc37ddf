/**
 * The lock node in a PostgreSQL database: locks without Redis.
 *
 * @module nestjs-fenced-lock/postgres
 */
export type { PostgresNode } from './postgres-lock-node.ts';
export { postgresNode } from './postgres-node.ts';
export type { PostgresNodeOptions } from './postgres-node.ts';
export type { ListeningClient } from './turns.ts';
