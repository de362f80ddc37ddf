import swc from './swc.cjs';

export default {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/test/**/*.spec.ts', '<rootDir>/sample/test/**/*.spec.ts'],
  // Browsers are asked for by name: npm run test:browser.
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/dist/', '<rootDir>/sample/test/browser/'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': swc('es6') },
  globalSetup: '<rootDir>/test/global-setup.ts',
  globalTeardown: '<rootDir>/test/global-teardown.ts',
  randomize: true,
  // Most specs wait for servers; jest would leave a core idle.
  maxWorkers: '100%',
  testTimeout: 30_000,
  collectCoverageFrom: ['lib/**/*.ts'],
  coverageProvider: 'v8',
};
