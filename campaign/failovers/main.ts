import { positiveInteger, readOptions, refuse } from '../../test/support/command-line.ts';
import { installSqlite } from '../../test/support/databases/install-sqlite.ts';
import { runPlan, SCHEDULES } from './plan.ts';

const USAGE = `
Usage: npm run failovers -- [options]

Real failovers of real servers, with clients on both sides of them: who held a lock, and when?

  --runs <number>        failovers of each topology (70); controls do a part of it
  --only <text>          schedules that have this text in their name
  --seed <number>        of the schedules; by chance when left out
  --lanes <number>       servers that fail over side by side (6)
  --list                 names all schedules, and runs none
  --help                 prints this

The controls with other libraries need: npm ci --prefix bench/peers
`;

const options = readOptions(
  {
    runs: { type: 'string', default: '70' },
    only: { type: 'string', default: '' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 1_000_000)) },
    lanes: { type: 'string', default: '6' },
    list: { type: 'boolean', default: false },
  },
  USAGE,
);
const say = (text: string): boolean => process.stdout.write(`${text}\n`);

async function main(): Promise<void> {
  const schedules = SCHEDULES.filter(({ name }) => name.includes(options.only));
  if (schedules.length === 0) refuse(`nothing has '${options.only}' in its name`);
  if (options.list) return schedules.forEach(({ name }) => say(name));
  await installSqlite();
  const [runs, seed, lanes] = (['runs', 'seed', 'lanes'] as const).map((name) =>
    positiveInteger(name, options[name]),
  );
  process.exitCode = (await runPlan(schedules, { runs: runs!, seed: seed!, lanes: lanes! }, say))
    ? 0
    : 1;
}

await main();
process.exit();
