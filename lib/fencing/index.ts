/**
 * Fences: they let a database or another service reject the token of a holder that has lost its lock.
 *
 * @module nestjs-fenced-lock/fencing
 */
export { FencedUsageError, isRedlockError, StaleTokenError } from '../core/errors.ts';
export { FencingToken } from '../core/fencing-token.ts';
export { drizzleFence } from './orms/drizzle-fence.ts';
export type {
  DrizzleDatabase,
  DrizzleFenceOptions,
  DrizzleSql,
  DrizzleTransaction,
} from './orms/drizzle-fence.ts';
export { dynamodbFence } from './drivers/dynamodb-fence.ts';
export type {
  DynamodbDocument,
  DynamodbFence,
  DynamodbFenceOptions,
  DynamodbWrite,
} from './drivers/dynamodb-fence.ts';
export { Fence } from './fence.ts';
export type {
  FenceEvent,
  FenceEventListener,
  FenceFinding,
  FenceKeys,
  FenceOptions,
  FenceToken,
  FenceTransactionOptions,
  IsolationLevel,
  SqlFenceOptions,
  StaleContext,
} from './fence.ts';
export { isStaleTokenError } from './fence-reporter.ts';
export { knexFence } from './orms/knex-fence.ts';
export type { KnexInstance, KnexTransaction } from './orms/knex-fence.ts';
export { kyselyFence } from './orms/kysely-fence.ts';
export type { KyselyDatabase, KyselyFenceOptions, KyselyTransaction } from './orms/kysely-fence.ts';
export { mikroOrmFence } from './orms/mikro-orm-fence.ts';
export type { MikroOrmEntityManager } from './orms/mikro-orm-fence.ts';
export { mysqlFence } from './drivers/mysql-fence.ts';
export type { MysqlConnection, MysqlPool } from './drivers/mysql-fence.ts';
export { pgliteFence } from './drivers/pglite-fence.ts';
export type { Pglite, PgliteTransaction } from './drivers/pglite-fence.ts';
export { postgresFence } from './drivers/postgres-fence.ts';
export type { PostgresFenceOptions } from './drivers/postgres-fence.ts';
export type { PostgresClient, PostgresPool } from './drivers/postgres-pool.ts';
export { postgresTokenSource } from './drivers/postgres-token-source.ts';
export type { PostgresTokenSource } from './drivers/postgres-token-source.ts';
export { prismaFence } from './orms/prisma-fence.ts';
export type { PrismaDatabase, PrismaFenceOptions, PrismaTransaction } from './orms/prisma-fence.ts';
export { redisFence } from './drivers/redis-fence.ts';
export type {
  RedisFence,
  RedisFenceClient,
  RedisFenceOptions,
  RedisWriteCommand,
} from './drivers/redis-fence.ts';
export type {
  PlaceholderStyle,
  SqlDialect,
  SqlExecutor,
  SqlFenceAdapter,
  SqlRow,
} from './sql/sql-executor.ts';
export { SqlFence } from './sql/sql-fence.ts';
export { sqliteFence } from './drivers/sqlite-fence.ts';
export type { SqliteDatabase, SqliteFence } from './drivers/sqlite-fence.ts';
export { typeormFence } from './orms/typeorm-fence.ts';
export type { TypeormDataSource, TypeormManager } from './orms/typeorm-fence.ts';
