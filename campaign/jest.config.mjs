// The specs of the campaign, and in full those of which `npm test` runs a part.
process.env.FENCE_STRESS ??= '1';
process.env.BATCH_RUNS ??= '5000';
process.env.RANDOM_COMMANDS ??= '1200';
const { default: base } = await import('../jest.config.mjs');

export default {
  ...base,
  rootDir: '..',
  testMatch: [
    '<rootDir>/campaign/**/*.spec.ts',
    '<rootDir>/sample/test/browser/**/*.spec.ts',
    '<rootDir>/test/contract/*.spec.ts',
    '<rootDir>/test/fencing/conformance.spec.ts',
    '<rootDir>/test/postgres/*.spec.ts',
  ],
  testPathIgnorePatterns: ['/node_modules/'],
};
