import base from './jest.config.mjs';
import swc from './swc.cjs';

// The same specs, compiled to CommonJS, against Nest 11, ioredis 5 and node-redis 5 from test/nest11.
const { extensionsToTreatAsEsm: _, ...rest } = base;

// What is the same beside every Nest and every ioredis, because it loads neither: the core with nodes in memory, the fences of and
// locks in databases, which import no driver, and the sample; and what happens after Nest has called the wrapper of a method: claims,
// errors, outcomes, keys. The scripts of a batch run on the server, whichever client sent them. Two of the wrong stores do touch
// Nest and ioredis; the right ones beside them (http-receiver, redis-fence) stay.
const SAME_ON_EVERY_NEST = [
  '<rootDir>/sample/test/',
  '<rootDir>/test/contract/(batches|memory-lock-node|postgres-lock-node)\\.spec\\.ts$',
  '<rootDir>/test/docs/',
  '<rootDir>/test/fencing/(?!http-|redis-)',
  '<rootDir>/test/jobs/(?!fenced-job)',
  '<rootDir>/test/leader/servers\\.spec\\.ts$',
  '<rootDir>/test/once/(?!idempotent)',
  '<rootDir>/test/postgres/',
  '<rootDir>/test/package/(?!quick-start\\.nest11)',
  '<rootDir>/test/regressions/',
  '<rootDir>/test/schedule/(?!fenced-cron-decoration)',
  '<rootDir>/test/security/holders\\.spec\\.ts$',
  '<rootDir>/test/simulation/',
  '<rootDir>/test/nest/(attach|claim|cls-transaction|fenced|key-template|lock-service)\\.spec\\.ts$',
  '<rootDir>/test/unit/(core|testing)/',
];

export default {
  ...rest,
  testPathIgnorePatterns: [
    ...base.testPathIgnorePatterns.filter((path) => !path.includes('/test/package/')),
    ...SAME_ON_EVERY_NEST,
    // GraphQL 14 needs Nest 12, and so do the packages those specs start; others load packages that are ES modules only.
    '\\.(nest12|esm)\\.spec\\.ts$',
  ],
  transform: { '^.+\\.m?[jt]s$': swc('commonjs') },
  moduleNameMapper: {
    '^(@nestjs/.*|rxjs|rxjs/.*|reflect-metadata|ioredis|redis)$':
      '<rootDir>/test/nest11/node_modules/$1',
  },
};
