import { describe, expect, it } from '@jest/globals';
import { acquireChecks } from './checks/acquire-checks.ts';
import { connectionChecks } from './checks/connection-checks.ts';
import { extendChecks } from './checks/extend-checks.ts';
import { floorChecks } from './checks/floor-checks.ts';
import { gateChecks } from './checks/gate-checks.ts';
import { joinChecks } from './checks/join-checks.ts';
import { multiKeyChecks } from './checks/multi-key-checks.ts';
import { releaseChecks } from './checks/release-checks.ts';
import { waitChecks } from './checks/wait-checks.ts';
import type { ContractCheck, ContractHarness } from './contract-harness.ts';

/** Every property of the node port. */
export const contractChecks: readonly ContractCheck[] = [
  ...acquireChecks,
  ...releaseChecks,
  ...extendChecks,
  ...multiKeyChecks,
  ...joinChecks,
  ...floorChecks,
  ...gateChecks,
  ...connectionChecks,
  ...waitChecks,
];

/** Runs checks of the contract, each with a harness of its own. */
export function lockNodeContract(
  name: string,
  checks: readonly ContractCheck[],
  createHarness: () => Promise<ContractHarness>,
): void {
  describe(`contract of the node port: ${name}`, () => {
    it.each(checks)('$name', async (check) => {
      expect.hasAssertions();
      const harness = await createHarness();
      try {
        await check.run(harness);
      } finally {
        await harness.close();
      }
    });
  });
}
