import { SeededRandom } from '../../test/support/seeded-random.ts';
import { readPartOptions } from '../part-options.ts';

export const options = readPartOptions();

/** The seed fixes what is drawn, not who draws it: holders race. */
export const chance = new SeededRandom(options.seed);
