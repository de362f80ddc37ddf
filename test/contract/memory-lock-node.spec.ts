import { lockNodeContract } from './lock-node.contract.ts';
import { createMemoryHarness } from './memory-harness.ts';

lockNodeContract('memory', async () => createMemoryHarness(), [
  'clock',
  'restart',
  'reach',
  'forgets',
]);
