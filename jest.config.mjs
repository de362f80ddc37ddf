import swc from './swc.cjs';

// How much the specs do that can do any amount; `npm run test:stress` has them do more.
process.env.FENCE_STRESS ??= '0.2';
process.env.BATCH_RUNS ??= '300';

/** Specs that only `npm run test:stress` runs: what takes long and seldom changes. */
export const LONG_SPECS = [
  'test/contract/redis-clock.spec.ts',
  'test/docs/consumer.spec.ts',
  'test/docs/recipes.spec.ts',
  'test/e2e/command-line.spec.ts',
  'test/e2e/redis-node-silence.spec.ts',
  'test/fencing/conformance-ages.spec.ts',
  'test/nest/one-copy.spec.ts',
  'test/regressions/moved-servers.spec.ts',
  'test/regressions/nothing-left.spec.ts',
  'test/topologies/cluster.spec.ts',
  'test/topologies/failover.spec.ts',
  'test/topologies/failovers/failovers.spec.ts',
  'test/topologies/sentinel.spec.ts',
];

export default {
  testEnvironment: '<rootDir>/test/support/spec-environment.ts',
  testMatch: ['<rootDir>/test/**/*.spec.ts', '<rootDir>/sample/test/**/*.spec.ts'],
  // These have commands of their own: npm run test:browser, npm run test:stress.
  testPathIgnorePatterns: [
    '/node_modules/',
    '<rootDir>/dist/',
    '<rootDir>/sample/test/browser/',
    '\\.stores\\.spec\\.ts$',
    ...LONG_SPECS.map((path) => `<rootDir>/${path}`),
  ],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': swc('es6') },
  globalSetup: '<rootDir>/test/global-setup.ts',
  globalTeardown: '<rootDir>/test/global-teardown.ts',
  // Most specs wait for servers; jest would leave a core idle.
  maxWorkers: '100%',
  // A bound that only a hang crosses: a process that has run a hundred specs collects its garbage slowly.
  testTimeout: 120_000,
  collectCoverageFrom: ['lib/**/*.ts'],
  coverageProvider: 'v8',
};
