import { contractChecks, lockNodeContract } from './lock-node.contract.ts';
import { createMemoryHarness } from './memory-harness.ts';

lockNodeContract('memory', contractChecks, async () => createMemoryHarness());
