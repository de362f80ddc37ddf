import { access, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { cachedFolder } from './cached-folder.ts';
import { AptDownload, completeLibraries, debianPlatform, libraryPathOf } from './debian.ts';
import { foldersWith } from './find-programs.ts';
import { LocalServer, type RedisExecutable } from './local-server.ts';
import type { RedisServer, RedisServerOptions } from './redis-server.ts';
import { runCommand } from './run-command.ts';
import { findUrls, urlServers } from './running-servers.ts';

export type { RedisServer, RedisServerOptions } from './redis-server.ts';

/** Carries what one process has found to the processes it starts, as JSON. */
const FOUND_VARIABLE = 'REDIS_SERVERS_FOUND';
const NAMES = ['redis-server', 'valkey-server'];
/** Their check tool is the server itself: which of the two it is, it decides by the name it is started with. */
const PACKAGES = ['redis-tools', 'valkey-tools'];

/** What was found once, and is handed on to other processes: running servers, or an executable to start some. */
interface Found {
  /** One line for people. */
  readonly description: string;
  readonly urls?: readonly string[];
  readonly executable?: RedisExecutable;
}

/** Starts servers in the way that was found. */
export interface RedisProvider {
  /** Servers that already run, named in REDIS_NODES: they can't be frozen, killed or restarted. */
  readonly urls: readonly string[] | undefined;
  readonly description: string;
  /** Starts `count` independent servers at once and resolves when all of them answer; all or none. */
  start(count: number, options?: RedisServerOptions): Promise<RedisServer[]>;
}

/**
 * Starts `count` independent Redis servers at once, on free loopback ports and without persistence unless `options` ask
 * for it, and resolves when all of them answer. They end with this process, however it ends.
 *
 * With REDIS_NODES set, the first `count` servers it names are used as they are, shared with everybody, unless `own` or
 * an option that a running server cannot take asks for servers started here.
 * @param options `own`: servers that can be frozen, killed and restarted, whatever REDIS_NODES says; default false
 * @throws {Error} when no way to run Redis is found, or a server does not start (then none is left)
 */
export async function startRedisServers(
  count: number,
  { own = false, ...options }: RedisServerOptions & { own?: boolean } = {},
): Promise<RedisServer[]> {
  const provider = await findRedis({ own: own || Object.keys(options).length > 0 });
  return provider.start(count, options);
}

/**
 * Finds a way to run Redis: servers named in REDIS_NODES, else redis-server or valkey-server on PATH, else the Debian package in
 * a cache folder.
 * @param options `own`: servers of one's own, so REDIS_NODES is passed over; default false
 * @throws {Error} that lists all ways, and why each one failed, when there is none
 */
export async function findRedis({ own = false } = {}): Promise<RedisProvider> {
  const handedOn = process.env[FOUND_VARIABLE];
  const known = handedOn ? (JSON.parse(handedOn) as Found) : undefined;
  return providerOf(known && (!own || !known.urls) ? known : await search(own));
}

/** Finds Redis once for this process and for all it starts from now on: they search no more. */
export async function findRedisForAll(): Promise<RedisProvider> {
  const found = await search(false);
  process.env[FOUND_VARIABLE] = JSON.stringify(found);
  return providerOf(found);
}

/** Undoes findRedisForAll. */
export function forgetRedis(): void {
  delete process.env[FOUND_VARIABLE];
}

async function search(own: boolean): Promise<Found> {
  const urls = own ? [] : await findUrls();
  if (urls.length > 0)
    return { urls, description: `Redis: ${urls.length} running servers of REDIS_NODES` };
  const reasons: string[] = [];
  for (const find of [findOnPath, findPackage]) {
    try {
      const executable = await find();
      return { executable, description: `Redis ${executable.version}: ${executable.command}` };
    } catch (error) {
      reasons.push(`  ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new Error(
    `Redis is needed and was not found. Install redis-server or valkey-server (apt-get install redis-server, brew install redis), name running servers (REDIS_NODES=redis://127.0.0.1:6379,…), or on Debian let apt-get reach its package source: no root is needed.\n${reasons.join('\n')}`,
  );
}

function providerOf({ urls, executable, description }: Found): RedisProvider {
  const start = async (count: number, options: RedisServerOptions = {}) => {
    if (urls) return urlServers(urls, count, options);
    const starting = Array.from({ length: count }, () => LocalServer.start(executable!, options));
    const outcomes = await Promise.allSettled(starting);
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    const servers = outcomes.flatMap((outcome) =>
      outcome.status === 'fulfilled' ? [outcome.value] : [],
    );
    if (!failed) return servers;
    await Promise.allSettled(servers.map((server) => server.stop()));
    throw failed.reason;
  };
  return { urls, description, start };
}

/** A server installed on this machine. */
async function findOnPath() {
  const broken: string[] = [];
  for (const name of NAMES) {
    for (const folder of await foldersWith([name])) {
      try {
        return await inspect(join(folder, name));
      } catch (error) {
        broken.push(String(error));
      }
    }
  }
  throw new Error(broken.join('; ') || `no ${NAMES.join(' or ')} on PATH`);
}

/** The Debian package, unpacked into a cache folder: about 1 MB, neither root nor an installation is needed. */
async function findPackage() {
  const inspectIn = async (folder: string) =>
    inspect(join(folder, 'redis-server'), await libraryPathOf(folder));
  const name = `redis-${await debianPlatform()}`;
  return inspectIn(await cachedFolder(name, unpack, inspectIn));
}

async function unpack(folder: string): Promise<void> {
  await using download = await AptDownload.create();
  const failures: string[] = [];
  for (const name of PACKAGES) {
    try {
      const archive = await download.extract(name, folder);
      const checkTool = join('usr/bin', name.replace('-tools', '-check-rdb'));
      await access(join(folder, checkTool));
      await symlink(checkTool, join(folder, 'redis-server'));
      return await completeLibraries(join(folder, checkTool), archive, folder, download);
    } catch (error) {
      failures.push(String(error));
    }
  }
  throw new Error(failures.join('; '));
}

/** The executable with its version, from the `v=7.0.15` of its own answer. */
async function inspect(command: string, libraryPath?: string) {
  const environment = libraryPath ? { ...process.env, LD_LIBRARY_PATH: libraryPath } : process.env;
  const answer = await runCommand(command, ['--version'], { environment, timeoutMs: 20_000 });
  const version = /\bv=(\S+)/.exec(answer)?.[1];
  if (!version) throw new Error(`${command} --version answered ${answer.trim()}`);
  return { command, libraryPath, version };
}
