import base from './jest.config.mjs';
import swc from './swc.cjs';

// The same specs, compiled to CommonJS, against Nest 11 and ioredis 5 from test/nest11.
const { extensionsToTreatAsEsm: _, ...rest } = base;

export default {
  ...rest,
  // GraphQL 14 needs Nest 12, and so do the packages those specs start; others load packages that are ES modules only.
  // The long ones of the simulation have nothing of Nest, and their workers are no CommonJS either way.
  testPathIgnorePatterns: [
    ...base.testPathIgnorePatterns,
    '\\.(nest12|esm)\\.spec\\.ts$',
    '<rootDir>/test/simulation/',
  ],
  transform: { '^.+\\.m?[jt]s$': swc('commonjs') },
  moduleNameMapper: {
    '^(@nestjs/.*|rxjs|rxjs/.*|reflect-metadata|ioredis)$': '<rootDir>/test/nest11/node_modules/$1',
  },
};
