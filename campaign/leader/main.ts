import { carryOutAll } from '../carry-out.ts';
import { readPartOptions } from '../part-options.ts';
import { play, PLAYS } from './plays.ts';

await carryOutAll('leader', PLAYS, readPartOptions(), play);
