import { availableParallelism } from 'node:os';
import swc from './swc.cjs';

// How much the specs do that can do any amount; the campaign has them do more.
process.env.FENCE_STRESS ??= '0.2';
process.env.BATCH_RUNS ??= '300';
process.env.RANDOM_COMMANDS ??= '800';

export default {
  testEnvironment: '<rootDir>/test/support/spec-environment.ts',
  testMatch: ['<rootDir>/test/**/*.spec.ts', '<rootDir>/sample/test/**/*.spec.ts'],
  // These need a browser and a build of the package: `npm run campaign` and `npm run test:package` run them.
  testPathIgnorePatterns: [
    '/node_modules/',
    '<rootDir>/sample/test/browser/',
    '<rootDir>/test/package/',
  ],
  extensionsToTreatAsEsm: ['.ts'],
  // The examples import the package as their readers do.
  moduleNameMapper: {
    '^nestjs-fenced-lock$': '<rootDir>/lib/index.ts',
    '^nestjs-fenced-lock/core$': '<rootDir>/lib/locks/index.ts',
    '^nestjs-fenced-lock/(\\w+)$': '<rootDir>/lib/$1/index.ts',
  },
  transform: { '^.+\\.ts$': swc('es6') },
  globalSetup: '<rootDir>/test/global-setup.ts',
  globalTeardown: '<rootDir>/test/global-teardown.ts',
  // Most specs wait for servers: a worker for each core would leave a third of the time unused.
  maxWorkers: Math.ceil(1.5 * availableParallelism()),
  // A bound that only a hang crosses: a process that has run a hundred specs collects its garbage slowly.
  testTimeout: 120_000,
  collectCoverageFrom: ['lib/**/*.ts'],
  coverageProvider: 'v8',
};
