// What takes minutes: specs that run only here, and those of which `npm test` runs a part, in full.
process.env.FENCE_STRESS ??= '1';
process.env.BATCH_RUNS ??= '5000';
const { default: base, LONG_SPECS } = await import('./jest.config.mjs');

export default {
  ...base,
  testMatch: [
    ...LONG_SPECS.map((path) => `<rootDir>/${path}`),
    '<rootDir>/test/contract/batches.spec.ts',
    '<rootDir>/test/contract/refinement.spec.ts',
    '<rootDir>/test/fencing/conformance.spec.ts',
  ],
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/dist/'],
  randomize: true,
};
