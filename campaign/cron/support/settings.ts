/** Each job runs every ten seconds; `job % 10` says in which second. */
export const INTERVAL_MS = 10_000;

export interface WorkerSettings {
  /** Without it, the locks are in the database. */
  readonly redisUrl: string | undefined;
  readonly databaseUrl: string;
  readonly jobs: number;
  readonly host: number;
}
