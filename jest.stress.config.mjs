// What takes minutes: specs that run only here, and those of which `npm test` runs a part, in full.
process.env.FENCE_STRESS ??= '1';
process.env.BATCH_RUNS ??= '20000';
process.env.SIMULATION_SEEDS ??= '100';
process.env.SIMULATION_STEP ??= '1';
const { default: base, LONG_SPECS } = await import('./jest.config.mjs');

export default {
  ...base,
  testMatch: [
    ...LONG_SPECS.map((path) => `<rootDir>/${path}`),
    '<rootDir>/test/contract/batches.spec.ts',
    '<rootDir>/test/contract/random.spec.ts',
    '<rootDir>/test/fencing/stress/*.spec.ts',
    '<rootDir>/test/fencing/wrong-stores.spec.ts',
    '<rootDir>/test/simulation/campaign.spec.ts',
    '<rootDir>/test/simulation/mutants/mutants.spec.ts',
    '<rootDir>/test/simulation/scenarios/outcome-masks.spec.ts',
  ],
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/dist/'],
};
