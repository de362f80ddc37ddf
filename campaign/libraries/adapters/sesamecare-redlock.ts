import { redlock } from './redlock-5.ts';

export const library = redlock('@sesamecare-oss/redlock');
