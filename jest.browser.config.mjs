import base from './jest.config.mjs';

// The page of the sample, in a real Chromium. The specs push the buttons of one page, so they run one by one.
export default {
  ...base,
  testMatch: ['<rootDir>/sample/test/browser/**/*.spec.ts'],
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/dist/'],
  maxWorkers: 1,
  testTimeout: 120_000,
};
