import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import {
  type RedisServer,
  findRedis,
  findRedisForAll,
  forgetRedis,
  startRedisServers,
} from './index.ts';
import type { FoundRedis, RedisWay } from './redis-server.ts';
import { ping } from './resp-request.ts';
import { searchWays } from './search-ways.ts';

const environment = { ...process.env };
let folder: string;
let servers: RedisServer[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'find-redis-'));
});

afterEach(async () => {
  process.env = { ...environment };
  await Promise.all(servers.map((server) => server.stop()));
  servers = [];
  await rm(folder, { recursive: true, force: true });
});

/** Makes the next search a real one: this run's own result and its settings are put aside. */
function searchAnew(settings: NodeJS.ProcessEnv): void {
  forgetRedis();
  delete process.env.REDIS_NODES;
  delete process.env.REDIS_SERVERS;
  Object.assign(process.env, settings);
}

async function writeExecutable(directory: string, name: string, answer: string): Promise<string> {
  const path = join(folder, directory, name);
  await mkdir(join(folder, directory), { recursive: true });
  await writeFile(path, `#!/bin/sh\n${answer}\n`);
  await chmod(path, 0o755);
  return path;
}

describe('searchWays', () => {
  const FOUND: Record<RedisWay, FoundRedis> = {
    urls: { way: 'urls', version: '1', urls: [] },
    path: { way: 'path', version: '1', command: '/redis-server' },
    docker: { way: 'docker', version: '1', image: 'redis' },
    package: { way: 'package', version: '1', command: '/redis-server' },
  };

  /** Finders of which only `working` succeed, and the ways that were tried. */
  function findersOf(...working: RedisWay[]) {
    const tried: RedisWay[] = [];
    const finder = (way: RedisWay) => () => {
      tried.push(way);
      return Promise.resolve(working.includes(way) ? FOUND[way] : { reason: `no ${way} here` });
    };
    const finders = {
      package: finder('package'),
      docker: finder('docker'),
      path: finder('path'),
      urls: finder('urls'),
    };
    return { finders, tried };
  }

  it('tries running servers, PATH, Docker and the package in this order, up to the first that works', async () => {
    const { finders, tried } = findersOf('package');
    expect(await searchWays(finders, {})).toBe(FOUND.package);
    expect(tried).toEqual(['urls', 'path', 'docker', 'package']);
    const early = findersOf('path', 'docker', 'package');
    expect(await searchWays(early.finders, {})).toBe(FOUND.path);
    expect(early.tried).toEqual(['urls', 'path']);
  });

  it('tries a forced way alone', async () => {
    const { finders, tried } = findersOf('urls', 'docker');
    expect(await searchWays(finders, { forced: 'docker' })).toBe(FOUND.docker);
    expect(tried).toEqual(['docker']);
    await expect(searchWays(finders, { forced: 'package' })).rejects.toThrow(
      /REDIS_SERVERS=package allows this way only[^]*package: [^]*\(no package here\)/,
    );
    await expect(searchWays(finders, { forced: 'podman' })).rejects.toThrow(
      'REDIS_SERVERS is one of urls, path, docker, package, got podman',
    );
  });

  it('skips running servers when servers of its own are needed', async () => {
    const { finders, tried } = findersOf('urls', 'path');
    expect(await searchWays(finders, { own: true })).toBe(FOUND.path);
    expect(tried).toEqual(['path']);
    await expect(searchWays(finders, { own: true, forced: 'urls' })).rejects.toThrow(
      'REDIS_SERVERS=urls allows running ones only',
    );
  });

  it('lists every way and why it failed when there is none', async () => {
    const failure = searchWays(findersOf().finders, {});
    await expect(failure).rejects.toThrow(/^Redis is needed and was not found\./);
    for (const way of ['urls', 'path', 'docker', 'package']) {
      await expect(failure).rejects.toThrow(
        new RegExp(`^  ${way}: .+\n    \\(no ${way} here\\)`, 'm'),
      );
    }
    await expect(failure).rejects.toThrow('REDIS_NODES=redis://');
    await expect(failure).rejects.toThrow('apt-get install redis-server');
  });
});

describe('the way over PATH', () => {
  it('finds redis-server, or valkey-server where there is no redis-server', async () => {
    const valkey = await writeExecutable(
      'a',
      'valkey-server',
      'echo "Valkey server v=8.1.4 sha=0"',
    );
    const first = join(folder, 'a');
    searchAnew({ REDIS_SERVERS: 'path', PATH: `${first}${delimiter}${folder}/b` });
    expect(await findRedis()).toMatchObject({ way: 'path', version: '8.1.4' });
    expect((await findRedis()).description).toContain(valkey);
    const redis = await writeExecutable('b', 'redis-server', 'echo "Redis server v=7.2.5 sha=0"');
    expect(await findRedis()).toMatchObject({ way: 'path', version: '7.2.5' });
    expect((await findRedis()).description).toContain(redis);
  });

  it('skips a program that does not run, and reports it when no other is found', async () => {
    await writeExecutable('a', 'redis-server', 'echo "libssl.so.3: cannot open" >&2; exit 127');
    searchAnew({ REDIS_SERVERS: 'path', PATH: join(folder, 'a') });
    await expect(findRedis()).rejects.toThrow('libssl.so.3: cannot open');
    await writeExecutable('b', 'redis-server', 'echo "Redis server v=7.2.5 sha=0"');
    searchAnew({ REDIS_SERVERS: 'path', PATH: `${folder}/a${delimiter}${folder}/b` });
    expect((await findRedis()).description).toContain(join(folder, 'b', 'redis-server'));
  });

  it('reports a PATH without a server', async () => {
    searchAnew({ REDIS_SERVERS: 'path', PATH: folder });
    await expect(findRedis()).rejects.toThrow('no redis-server or valkey-server on PATH');
  });
});

describe('the way over the package', () => {
  it('fails on machines without apt', async () => {
    searchAnew({ REDIS_SERVERS: 'package', PATH: folder });
    await expect(findRedis()).rejects.toThrow('apt-get and dpkg do not run');
  });
});

describe('the way over Docker', () => {
  it('starts real servers, or fails with the reason', async () => {
    searchAnew({ REDIS_SERVERS: 'docker' });
    const outcome = await findRedis().then(
      async (provider) => {
        servers = await provider.start(1, { requirepass: 'secret' });
        await servers[0]!.freeze();
        await servers[0]!.kill();
        await servers[0]!.restart();
        return provider.description;
      },
      (error: Error) => error.message,
    );
    expect(outcome).toMatch(
      /in containers of redis:|docker: start Docker[^]*\(no container runtime: \w/,
    );
  });
});

describe('REDIS_NODES', () => {
  it('names servers that are shared, are not stopped, and take no faults', async () => {
    servers = await startRedisServers(2, { requirepass: 'secret' });
    const urls = servers.map((server) => server.url);
    searchAnew({ REDIS_NODES: ` ${urls.join(' , ')},` });
    const provider = await findRedis();
    expect(provider).toMatchObject({ way: 'urls', canFault: false });
    expect(provider.version).toMatch(/^\d+\.\d+/);
    const [first, second] = await startRedisServers(2);
    expect([first!.url, second!.url]).toEqual(urls);
    expect(first).toMatchObject({
      host: servers[0]!.host,
      port: servers[0]!.port,
      canFault: false,
    });
    await first!.stop();
    const user = { name: 'default', password: 'secret' };
    await ping({ address: { host: first!.host, port: first!.port }, user });
    for (const fault of ['freeze', 'resume', 'kill', 'restart'] as const) {
      const refusal = first![fault]();
      await expect(refusal).rejects.toThrow(new RegExp(`cannot ${fault} .* named in REDIS_NODES`));
      await expect(refusal).rejects.not.toThrow('secret');
    }
    await expect(startRedisServers(3)).rejects.toThrow(
      '3 servers are needed and REDIS_NODES names 2',
    );
    await expect(provider.start(1, { appendonly: true })).rejects.toThrow('appendonly');
  });

  it('fails when a server does not answer, without another try and without its password', async () => {
    searchAnew({ REDIS_NODES: 'redis://user:secret@127.0.0.1:1' });
    const failure = findRedis();
    await expect(failure).rejects.toThrow('redis://127.0.0.1:1, which does not serve');
    searchAnew({ REDIS_NODES: 'http://127.0.0.1:6379' });
    await expect(findRedis()).rejects.toThrow('which does not serve');
  });

  it('is skipped for servers that are to be killed or configured', async () => {
    servers = await startRedisServers(1, { own: true });
    searchAnew({ REDIS_NODES: servers[0]!.url });
    process.env.REDIS_SERVERS_FOUND = environment.REDIS_SERVERS_FOUND;
    const [own] = await startRedisServers(1, { own: true });
    servers.push(own!);
    expect(own!.url).not.toBe(servers[0]!.url);
    expect(own!.canFault).toBe(true);
  });
});

describe('findRedisForAll', () => {
  it('passes its result on, so that later searches agree and cost nothing', async () => {
    await writeExecutable('a', 'redis-server', 'echo "Redis server v=7.2.5 sha=0"');
    searchAnew({ REDIS_SERVERS: 'path', PATH: join(folder, 'a') });
    await findRedisForAll();
    await rm(join(folder, 'a'), { recursive: true });
    expect(await findRedis()).toMatchObject({ way: 'path', version: '7.2.5' });
    forgetRedis();
    await expect(findRedis()).rejects.toThrow('no redis-server');
  });
});
