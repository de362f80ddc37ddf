import { installSqlite } from '../../test/support/databases/install-sqlite.ts';
import { chosen, readPartOptions, someOf } from '../part-options.ts';
import { runPlan, SCHEDULES } from './plan.ts';

/** Failovers of each topology; controls do a part of it. */
const RUNS = 70;
const QUICK_RUNS = 4;

const options = readPartOptions();
const schedules = someOf(chosen(SCHEDULES, options.only), options.only);
await installSqlite();
const isGood = await runPlan(schedules, options.isQuick ? QUICK_RUNS : RUNS, options);
process.exit(isGood ? 0 : 1);
