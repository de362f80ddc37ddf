import { carryOutAll } from '../carry-out.ts';
import { readPartOptions } from '../part-options.ts';
import { play, PLAYS } from './plays.ts';

const options = readPartOptions();
const size = options.isQuick ? { workers: 3, callers: 4 } : { workers: 8, callers: 8 };
await carryOutAll('database', PLAYS, options, (plan, settings) =>
  play(plan, { ...size, ...settings }),
);
