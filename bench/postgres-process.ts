import { postgresContestants, takeFor } from './postgres-contestants.ts';

// Process of several whose callers want one key in PostgreSQL. The parent says of which contestant, and for how long.

/** Order that the parent sends. */
export interface PostgresOrder {
  readonly contestant: number;
  /** One for each caller. */
  readonly keys: readonly string[];
  readonly forMs: number;
}

process.on('disconnect', () => process.exit());
const contestants = await postgresContestants(process.argv[2]!);
process.on('message', ({ contestant, keys, forMs }: PostgresOrder) => {
  void takeFor(contestants[contestant]!, keys, forMs).then((taken) => process.send!(taken));
});
process.send!('ready');
