import { posix } from 'node:path';
import { resolveRelative, type SourceFile } from './source-file.ts';

/** A rule returns what breaks it, in words; nothing when all is well. */
export type Rule = (files: readonly SourceFile[]) => string[];

interface Layer {
  /** Files below lib it may import besides its own; a folder ends with `/`. */
  readonly files: readonly string[];
  /** Packages; `node:` stands for all built-in modules. */
  readonly packages: readonly string[];
}

const NEST_PACKAGES = ['@nestjs/common', '@nestjs/core', 'rxjs', 'reflect-metadata'];

/** Packages that only who imports these entry points has. */
const OPTIONAL = {
  schedule: ['cron'],
  telemetry: ['@opentelemetry/api'],
  terminus: ['@nestjs/terminus'],
};

const LAYERS: Readonly<Record<string, Layer>> = {
  core: { files: [], packages: ['node:'] },
  redis: { files: ['core/'], packages: ['node:', 'ioredis'] },
  fencing: {
    files: [
      'core/options/duration.ts',
      'core/options/option-names.ts',
      'core/errors.ts',
      'core/fencing-token.ts',
      'core/options/lock-keys.ts',
    ],
    packages: ['node:'],
  },
  // Locks in the database of a fence.
  postgres: { files: ['core/', 'fencing/'], packages: [] },
  // Port of fencing only: it is given a fence, and knows no database.
  locks: { files: ['core/', 'redis/', 'fencing/fence.ts'], packages: ['node:'] },
  nest: {
    files: ['core/', 'locks/', 'fencing/fence.ts', 'fencing/fencing-token-header.ts'],
    packages: ['node:', ...NEST_PACKAGES],
  },
  // The decorators of parameters and what Nest injects, but no lock.
  jobs: {
    files: [
      'core/errors.ts',
      'core/fencing-token.ts',
      'fencing/fence.ts',
      'nest/fenced/fenced-metadata.ts',
      'nest/fenced/lock-parameters.ts',
    ],
    packages: ['node:'],
  },
  telemetry: { files: ['core/', 'locks/telemetry.ts'], packages: OPTIONAL.telemetry },
  leader: { files: ['core/', 'locks/lock-host.ts', 'nest/'], packages: [] },
  // Work under a lock, and its answer in the database of the fence.
  once: { files: ['core/', 'fencing/', 'locks/', 'nest/'], packages: ['node:', ...NEST_PACKAGES] },
  // Methods under locks, whose runs are rows beside a fence.
  schedule: {
    files: [
      'core/',
      'locks/',
      'nest/',
      'fencing/fence.ts',
      'fencing/fence-claim.ts',
      'fencing/sql/',
    ],
    packages: ['node:', '@nestjs/common', ...OPTIONAL.schedule],
  },
  terminus: {
    files: ['locks/lock-service.ts'],
    packages: ['@nestjs/common', ...OPTIONAL.terminus],
  },
  // Servers in memory run the scripts, and their answers mean what those of a Redis mean.
  testing: {
    files: [
      'core/',
      'redis/scripts.ts',
      'redis/commands/node-failure.ts',
      'redis/commands/replies.ts',
    ],
    packages: ['node:'],
  },
  cli: { files: ['core/', 'redis/'], packages: ['node:'] },
};

/** core ← redis ← locks ← nest; fencing stands on core alone, postgres on both, testing on core and the answers of redis. Entry points directly in lib may name everything. */
export const importDirection: Rule = (files) =>
  files.flatMap((file) => {
    const [, name = '', ...rest] = file.path.split('/');
    if (rest.length === 0) return [];
    const layer = LAYERS[name];
    if (!layer) return [`${file.path}: '${name}' is no layer`];
    const allowed = [`${name}/`, ...layer.files].map((path) => `lib/${path}`);
    return file.imports
      .filter(({ specifier }) =>
        specifier.startsWith('.')
          ? !allowed.some((path) => startsWithPath(resolveRelative(file.path, specifier), path))
          : !isPackage(specifier, layer.packages),
      )
      .map(({ specifier }) => `${file.path} imports ${specifier}`);
  });

/** The rooms of a layer, each standing on those before it. Files directly in the layer are the base, but for the way in. */
const STACKS = [
  {
    layer: 'lib/core/',
    rooms: ['options', 'nodes', 'voting', 'holding', 'waiting'],
    entry: 'redlock.ts',
  },
  { layer: 'lib/fencing/', rooms: ['sql', 'drivers', 'orms'], entry: 'index.ts' },
];

/** `redlock > waiting > holding > voting > nodes > options > base`, `index > orms > drivers > sql > base`: nothing knows what stands above it. */
export const roomsInAStack: Rule = (files) =>
  STACKS.flatMap((stack) =>
    files
      .filter(({ path }) => path.startsWith(stack.layer))
      .flatMap((file) => {
        const floor = floorOf(file.path, stack);
        if (floor === undefined) return [`${file.path} is in no room of ${stack.layer}`];
        return file.imports
          .map(({ specifier }) => specifier)
          .filter((specifier) => specifier.startsWith('.'))
          .filter(
            (specifier) => (floorOf(resolveRelative(file.path, specifier), stack) ?? 0) > floor,
          )
          .map((specifier) => `${file.path} imports ${specifier}`);
      }),
  );

/** 0 for the base and other layers; undefined where there is no such room. */
function floorOf(
  path: string,
  { layer, rooms, entry }: (typeof STACKS)[number],
): number | undefined {
  if (!path.startsWith(layer)) return 0;
  const [room = '', ...rest] = path.slice(layer.length).split('/');
  if (rest.length === 0) return room === entry ? rooms.length + 1 : 0;
  const floor = rooms.indexOf(room);
  return floor < 0 ? undefined : floor + 1;
}

const SYSTEM_ENVIRONMENT = 'lib/core/system-environment.ts';
const TIME_AND_CHANCE = [
  'Date',
  'Math.random',
  'crypto',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'console',
  'performance',
  'process.hrtime',
  'process.stdout',
  'process.stderr',
];
const TIME_AND_CHANCE_MODULES = [
  'node:crypto',
  'node:perf_hooks',
  'node:timers',
  'node:timers/promises',
  'node:console',
];

/** The core gets time and chance from its environment, and never writes to the console. */
export const injectedTimeAndChance: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith('lib/core/') && path !== SYSTEM_ENVIRONMENT)
    .flatMap(({ path, uses, imports }) => [
      ...TIME_AND_CHANCE.filter((name) => uses.has(name) || uses.has(`globalThis.${name}`)).map(
        (name) => `${path} uses ${name}`,
      ),
      ...imports
        .filter(({ specifier }) => TIME_AND_CHANCE_MODULES.includes(specifier))
        .map(({ specifier }) => `${path} imports ${specifier}`),
    ]);

export const namedExportsOnly: Rule = (files) =>
  files
    .filter((file) => file.exports.some(({ name }) => name === 'default'))
    .map(({ path }) => `${path} has a default export`);

/** A name that says nothing attracts everything. */
export const tellingNames: Rule = (files) =>
  files
    .filter(({ path }) => /(^|[/.-])(utils?|helpers?|common|misc)([/.-]|$)/.test(path))
    .map(({ path }) => `${path} says nothing about what is in it`);

/** What a reader takes in at one glance. */
const MOST_FILES_IN_A_FOLDER = 12;
const MOST_FIELDS_IN_A_CLASS = 12;

export const smallFolders: Rule = (files) => {
  const counts = new Map<string, number>();
  for (const { path } of files) {
    const folder = posix.dirname(path);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > MOST_FILES_IN_A_FOLDER)
    .map(([folder, count]) => `${folder} has ${count} files`);
};

export const smallClasses: Rule = (files) =>
  files.flatMap(({ path, classes }) =>
    classes
      .filter(({ fields }) => fields > MOST_FIELDS_IN_A_CLASS)
      .map(({ name, fields }) => `${path}: ${name} has ${fields} fields`),
  );

/** Cycles of modules that load each other; types are free to refer to each other, but not in the core. */
export const noCycles: Rule = (files) => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const finished = new Set<string>();
  const found: string[] = [];
  const follow = (path: string, way: readonly string[]): void => {
    const start = way.indexOf(path);
    if (start >= 0) found.push([...way.slice(start), path].join(' → '));
    if (start >= 0 || finished.has(path)) return;
    for (const { specifier, typeOnly } of byPath.get(path)?.imports ?? []) {
      if ((!typeOnly || path.startsWith('lib/core/')) && specifier.startsWith('.'))
        follow(resolveRelative(path, specifier), [...way, path]);
    }
    finished.add(path);
  };
  for (const { path } of files) follow(path, []);
  return found;
};

/** Names that an entry point exports, types with `type ` in front, sorted. `*` hides what is public, so it breaks the rule. */
export function publicNames(entry: SourceFile): string[] {
  return entry.exports.map(({ name, typeOnly }) => (typeOnly ? `type ${name}` : name)).sort();
}

/** Every user has these. */
const PUBLIC_PACKAGES = ['node:', 'ioredis'];

/** The declarations a user's compiler reads name only packages that every user of their entry point has. */
export const installedPackagesOnly: Rule = (files) =>
  files.flatMap(({ path, imports }) => {
    const [folder = ''] = path.split('/');
    const installed = [...PUBLIC_PACKAGES, ...(LAYERS[folder]?.packages ?? NEST_PACKAGES)];
    return imports
      .filter(({ specifier }) => !specifier.startsWith('.') && !isPackage(specifier, installed))
      .map(({ specifier }) => `${path} imports ${specifier}`);
  });

function isPackage(specifier: string, packages: readonly string[]): boolean {
  return packages.some((name) =>
    name === 'node:'
      ? specifier.startsWith(name)
      : specifier === name || specifier.startsWith(`${name}/`),
  );
}

function startsWithPath(path: string, prefix: string): boolean {
  return prefix.endsWith('/') ? path.startsWith(prefix) : path === prefix;
}
