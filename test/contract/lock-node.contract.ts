import { afterEach, describe, expect, it } from '@jest/globals';
import { acquireChecks } from './checks/acquire-checks.ts';
import { connectionChecks } from './checks/connection-checks.ts';
import { extendChecks } from './checks/extend-checks.ts';
import { floorChecks } from './checks/floor-checks.ts';
import { gateChecks } from './checks/gate-checks.ts';
import { joinChecks } from './checks/join-checks.ts';
import { multiKeyChecks } from './checks/multi-key-checks.ts';
import { releaseChecks } from './checks/release-checks.ts';
import { replaceChecks } from './checks/replace-checks.ts';
import { waitChecks } from './checks/wait-checks.ts';
import type { Capability, ContractCheck, ContractHarness } from './contract-harness.ts';

/** Checks of every property of the node port. */
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
  ...replaceChecks,
];

/**
 * Runs the contract of the node port.
 *
 * @param createHarness a harness with names, keys and marker of its own for each check
 * @param capabilities what this harness can do beyond the port; checks that need more are left out
 */
export function lockNodeContract(
  name: string,
  createHarness: () => Promise<ContractHarness>,
  capabilities: readonly Capability[],
): void {
  describe(`contract of the node port: ${name}`, () => {
    let harness: ContractHarness | undefined;

    afterEach(async () => {
      await harness?.close();
      harness = undefined;
    });

    const lacking = (check: ContractCheck): boolean =>
      (check.needs ?? []).some((capability) => !capabilities.includes(capability));

    it.each(contractChecks.filter((check) => !lacking(check)))('$name', async (check) => {
      expect.hasAssertions();
      harness = await createHarness();
      await check.run(harness);
    });
  });
}

/** Throws for `advance` of a harness whose clock can't be moved. */
export function lacks(capability: Capability): never {
  throw new Error(`This harness lacks the capability '${capability}'.`);
}
