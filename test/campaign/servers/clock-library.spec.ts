import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findClockLibrary } from '../../support/redis-servers/clock-library.ts';
import { LocalServer } from '../../support/redis-servers/local-server.ts';
import { findPackage } from '../../support/redis-servers/package-way.ts';
import { findOnPath } from '../../support/redis-servers/path-way.ts';
import type { FoundRedis } from '../../support/redis-servers/redis-server.ts';

type LocalRedis = Extract<FoundRedis, { command: string }>;

const environment = { ...process.env };
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'clock-library-'));
});
afterEach(async () => {
  process.env = { ...environment };
  await rm(folder, { recursive: true, force: true });
});

/** Whatever a machine has to run Redis as a process; a container's clock is not moved. */
async function localRedis(): Promise<LocalRedis> {
  for (const find of [findOnPath, findPackage]) {
    const found = await find();
    if ('command' in found) return found;
  }
  throw new Error('neither redis-server on PATH nor its package');
}

async function movesClock(redis: LocalRedis): Promise<string> {
  const server = await LocalServer.start(redis, { movableClock: true });
  try {
    await server.moveClock(-3_600_000);
    return 'moved';
  } finally {
    await server.stop();
  }
}

/** A folder as distributions have it, with these bytes for the library. */
async function folderWith(library: string | Buffer): Promise<string> {
  await mkdir(join(folder, 'faketime'));
  await writeFile(join(folder, 'faketime/libfaketime.so.1'), library);
  return folder;
}

/** The real library, from the system or from its package. */
async function realLibrary(redis: LocalRedis): Promise<Buffer> {
  const { libraryPath } = await findClockLibrary(redis);
  return readFile(join(libraryPath.split(':').at(-1)!, 'libfaketime.so.1'));
}

describe('the search for libfaketime', () => {
  it.each([findOnPath, findPackage])(
    'serves a server found by %p, where there is one',
    async (find) => {
      const redis = await find();
      const outcome = 'command' in redis ? await movesClock(redis) : JSON.stringify(redis);
      expect(outcome).toMatch(/^moved$|reason.*(on PATH|apt-get)/);
    },
  );

  it('takes the library of the system first', async () => {
    const redis = await localRedis();
    const systemFolder = await folderWith(await realLibrary(redis));
    const { libraryPath } = await findClockLibrary(redis, { systemFolders: [systemFolder] });
    expect(libraryPath.split(':').at(-1)).toBe(join(systemFolder, 'faketime'));
  });

  it('unpacks the package where the system has none, or says why it cannot', async () => {
    const outcome = await findClockLibrary(await localRedis(), { systemFolders: [folder] }).then(
      ({ libraryPath }) => libraryPath,
      (error: Error) => error.message,
    );
    expect(outcome).toMatch(/\/nestjs-fenced-lock\/faketime-|package: [^]*\(\S/);
  });

  it('passes over a library that does not work, and tells of it when nothing else is found', async () => {
    const redis = await localRedis();
    const systemFolder = await folderWith('no library');
    process.env.PATH = folder;
    await copyFile('/bin/date', join(folder, 'date'));
    const failure = findClockLibrary(redis, { systemFolders: [systemFolder] });
    await expect(failure).rejects.toThrow(
      /libfaketime is needed[^]*system: [^]*does not move the clock[^]*package: [^]*apt-get and dpkg do not run/,
    );
  });

  it('lists the ways when there is none', async () => {
    const redis = await localRedis();
    process.env.PATH = folder;
    const failure = findClockLibrary(redis, { systemFolders: [folder, '/nowhere'] });
    await expect(failure).rejects.toThrow('apt-get install libfaketime');
    await expect(failure).rejects.toThrow(`no faketime/libfaketime.so.1 in ${folder}, /nowhere`);
    await expect(failure).rejects.toThrow('this is not a Debian or Ubuntu');
  });
});

describe('a server that needs its own allocator', () => {
  it('is not started under a libfaketime that would hang in it', async () => {
    const library = await realLibrary(await localRedis());
    const old = Buffer.from(
      library.toString('latin1').replaceAll('FAKETIME_IGNORE_SYMBOLS', 'FAKETIME_IGNORE_NOTHING'),
      'latin1',
    );
    const systemFolders = [await folderWith(old)];
    const command = join(folder, 'valkey-server');
    await writeFile(command, 'malloc\0sdallocx\0');
    await expect(findClockLibrary({ command }, { systemFolders })).rejects.toThrow(
      'install 0.9.11 or newer',
    );
  });
});

it('is refused on any system but Linux, and the refusal names both', async () => {
  const { platform } = process;
  Object.defineProperty(process, 'platform', { value: 'darwin' });
  try {
    const looking = findClockLibrary({ command: '/redis-server' });
    await expect(looking).rejects.toThrow(/on Linux only, and this is darwin/);
  } finally {
    Object.defineProperty(process, 'platform', { value: platform });
  }
});
