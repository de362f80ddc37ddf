import { expect, it } from '@jest/globals';
import { brokenServer, FLAWS } from './broken-servers.ts';
import { contractChecks } from './lock-node.contract.ts';
import { createMemoryHarness } from './memory-harness.ts';

it.each(
  Object.entries(FLAWS).flatMap(([server, { flaw, checks }]) =>
    checks.map((name) => ({ server, flaw, name })),
  ),
)('the contract catches a server that $server: $name', async ({ flaw, name }) => {
  const check = contractChecks.find((candidate) => candidate.name === name);
  const harness = createMemoryHarness(brokenServer(flaw));
  await expect(check!.run(harness)).rejects.toThrow(/expect\(/);
  await harness.close();
});
