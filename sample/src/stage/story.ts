import type { Act } from './act.ts';
import { contention } from './acts/contention.ts';
import { curtain } from './acts/curtain.ts';
import { majorityLost } from './acts/majority-lost.ts';
import { nodeFrozen } from './acts/node-frozen.ts';
import { nodeKilled } from './acts/node-killed.ts';
import { staleHolder } from './acts/stale-holder.ts';
import { withoutFence } from './acts/without-fence.ts';

/** The acts, in the order in which they are played. */
export const STORY: readonly Act[] = [
  contention,
  nodeKilled,
  nodeFrozen,
  staleHolder,
  withoutFence,
  majorityLost,
  curtain,
];
