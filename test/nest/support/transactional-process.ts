// A process that plays the transactional application and prints what it saw. Argument: the URL of the database.
import { playTransactions } from './transactional-application.ts';

playTransactions(process.argv[2]!).then(
  (played) => process.stdout.write(JSON.stringify(played)),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    process.exitCode = 1;
  },
);
