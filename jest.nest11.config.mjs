import base from './jest.config.mjs';
import swc from './swc.cjs';

// The same specs, compiled to CommonJS, against Nest 11 and ioredis 5 from test/nest11.
const { extensionsToTreatAsEsm: _, ...rest } = base;

// What is the same beside every Nest and every ioredis, because it loads neither: the core with nodes in memory, the fences of
// databases, which take the application's connection and import no driver, and the sample. Child processes (fault campaign, process,
// call-path, operation-counts) load the repository's packages, not those of test/nest11. The scripts of a batch run on the server, whichever client sent them.
// All of these have run in `npm test` or `npm run test:stress`. Two of the wrong stores do touch Nest and ioredis; the right ones
// beside them (http-receiver, redis-fence) stay.
const SAME_ON_EVERY_NEST = [
  '<rootDir>/sample/test/',
  '<rootDir>/test/architecture/call-path\\.spec\\.ts$',
  '<rootDir>/test/campaign/',
  '<rootDir>/test/contract/(batches|broken-servers|memory-lock-node)\\.spec\\.ts$',
  '<rootDir>/test/docs/',
  '<rootDir>/test/fencing/(?!http-|redis-)',
  '<rootDir>/test/regressions/(abort-and-drain|joined-sections|key-sets|listeners|process|remembered-floors)\\.spec\\.ts$',
  '<rootDir>/test/regressions/(reports|reserved-names|split-votes|suspended|wait-budgets|waiting-errors|wake-ups)\\.spec\\.ts$',
  '<rootDir>/test/security/holders\\.spec\\.ts$',
  '<rootDir>/test/simulation/',
  '<rootDir>/test/e2e/operation-counts\\.spec\\.ts$',
  '<rootDir>/test/unit/(core|testing)/',
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
