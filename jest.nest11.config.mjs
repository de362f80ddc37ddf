import base from './jest.config.mjs';
import swc from './swc.cjs';

// The same specs, compiled to CommonJS, against Nest 11 and ioredis 5 from test/nest11.
const { extensionsToTreatAsEsm: _, ...rest } = base;

// Minutes of work on what is the same beside every Nest: the core, the docs, the simulation, the stress and the stores of
// databases load neither Nest nor ioredis, and the fault campaign and the counts start processes of their own, which load the repository's ioredis and not this one.
// All of them have run in `npm test` or `npm run test:stress`. Two of the wrong stores do touch Nest and ioredis; the right ones beside them
// (http-receiver, redis-conformance) stay.
const SAME_ON_EVERY_NEST = [
  '<rootDir>/test/campaign/',
  '<rootDir>/test/docs/',
  '<rootDir>/test/history/',
  '<rootDir>/test/simulation/',
  '<rootDir>/test/unit/core/',
  '<rootDir>/test/e2e/operation-counts\\.spec\\.ts$',
  '<rootDir>/test/fencing/stress/',
  '<rootDir>/test/fencing/wrong-stores\\.spec\\.ts$',
  '<rootDir>/test/fencing/embedded-conformance\\.spec\\.ts$',
  '<rootDir>/test/fencing/ended-transactions\\.spec\\.ts$',
  '<rootDir>/test/fencing/fence-context\\.spec\\.ts$',
  '<rootDir>/test/fencing/mariadb-conformance\\.spec\\.ts$',
  '<rootDir>/test/fencing/postgres-conformance\\.spec\\.ts$',
];

export default {
  ...rest,
  testPathIgnorePatterns: [
    ...base.testPathIgnorePatterns,
    ...SAME_ON_EVERY_NEST,
    // GraphQL 14 needs Nest 12, and so do the packages those specs start; others load packages that are ES modules only.
    '\\.(nest12|esm)\\.spec\\.ts$',
  ],
  transform: { '^.+\\.m?[jt]s$': swc('commonjs') },
  moduleNameMapper: {
    '^(@nestjs/.*|rxjs|rxjs/.*|reflect-metadata|ioredis)$': '<rootDir>/test/nest11/node_modules/$1',
  },
};
