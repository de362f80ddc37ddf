export { FencedUsageError, isRedlockError, StaleTokenError } from '../core/errors.ts';
export { FencingToken } from '../core/fencing-token.ts';
export { drizzleFence } from './drizzle-fence.ts';
export type {
  DrizzleDatabase,
  DrizzleFenceOptions,
  DrizzleSql,
  DrizzleTransaction,
} from './drizzle-fence.ts';
export type { FenceToken } from './fence-claim.ts';
export { Fence } from './fence.ts';
export type {
  FenceEvent,
  FenceEventListener,
  FenceKeys,
  FenceOptions,
  FenceTransactionOptions,
  IsolationLevel,
  SqlFenceOptions,
  StaleContext,
} from './fence.ts';
export { isStaleTokenError } from './fence-reporter.ts';
export { knexFence } from './knex-fence.ts';
export type { KnexInstance, KnexTransaction } from './knex-fence.ts';
export { kyselyFence } from './kysely-fence.ts';
export type { KyselyDatabase, KyselyFenceOptions, KyselyTransaction } from './kysely-fence.ts';
export { mikroOrmFence } from './mikro-orm-fence.ts';
export type { MikroOrmEntityManager } from './mikro-orm-fence.ts';
export { mysqlFence } from './mysql-fence.ts';
export type { MysqlConnection, MysqlPool } from './mysql-fence.ts';
export { pgliteFence } from './pglite-fence.ts';
export type { Pglite, PgliteTransaction } from './pglite-fence.ts';
export { postgresFence } from './postgres-fence.ts';
export type { PostgresFence, PostgresFenceOptions } from './postgres-fence.ts';
export type { PostgresClient, PostgresPool } from './postgres-pool.ts';
export { postgresTokenSource } from './postgres-token-source.ts';
export type { PostgresTokenSource } from './postgres-token-source.ts';
export { prismaFence } from './prisma-fence.ts';
export type { PrismaDatabase, PrismaFenceOptions, PrismaTransaction } from './prisma-fence.ts';
export { redisFence } from './redis-fence.ts';
export type {
  RedisFence,
  RedisFenceClient,
  RedisFenceOptions,
  RedisWriteCommand,
} from './redis-fence.ts';
export type { PlaceholderStyle, SqlDialect, SqlExecutor, SqlRow } from './sql-executor.ts';
export type { SqlFenceAdapter } from './sql-fence-adapter.ts';
export { SqlFence } from './sql-fence.ts';
export { sqliteFence } from './sqlite-fence.ts';
export type { SqliteDatabase } from './sqlite-fence.ts';
export { typeormFence } from './typeorm-fence.ts';
export type { TypeormDataSource, TypeormManager } from './typeorm-fence.ts';
