import base from './jest.config.mjs';

// Clients of databases that only these specs use; their packages are in test/stores.
export default {
  ...base,
  testMatch: ['<rootDir>/test/stores/**/*.stores.spec.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  // Prisma's schema engine keeps its process alive when its connections have ended.
  forceExit: true,
};
